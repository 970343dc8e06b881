// Plugins in the user's folder: how they come, go and are pinned.
#include "host/plugin_folder.hpp"

#include <sys/file.h>

#include <algorithm>
#include <functional>

#include "base/files.hpp"
#include "base/text.hpp"
#include "host/expect_error.hpp"
#include "host/listing.hpp"
#include "host/plugin_root.hpp"
#include "host/tar.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::PluginRoot;
using testing::tar;
using testing::TarEntry;

class PluginFolder : public ::testing::Test {
 protected:
  // Returns the folder of a plugin that is not installed.
  fs::path make(const std::string& version = "1.0.0") {
    fs::remove_all(built_.path() / "alpha" / version);
    return built_.install("alpha_" + version, "alpha", version);
  }
  // Returns its files as entries of an archive.
  std::vector<TarEntry> entries(const std::string& below = "") {
    const fs::path folder = make();
    std::vector<TarEntry> entries;
    for (const char* name : {"plugin.json", "plugin.so"})
      entries.push_back({below + name, read_file(folder / name, 1 << 24)});
    return entries;
  }
  fs::path archive(const std::vector<TarEntry>& entries) {
    const fs::path path = files_.write("alpha.tar", tar(entries));
    chmod(path.c_str(), 0644);
    return path;
  }
  SearchPaths paths() const {
    SearchPaths paths;
    paths.own = own_;
    paths.roots = {{own_, "your own"}, {system_.path(), "installed with Weft"}};
    return paths;
  }
  json install(const fs::path& source) const { return install_plugin(paths(), PluginRoot::facts(), source); }
  std::string used() const {
    return resolve(scan(paths()), PluginRoot::facts(), "shard_policy", "family", "").version;
  }
  // Returns the names in the user's folder.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(own_, code)) names.push_back(entry.path().filename());
    return names;
  }

  PluginRoot built_, system_;
  testing::TemporaryFolder files_, home_;
  const fs::path own_ = home_.path() / "share/weft/plugins";
};

TEST_F(PluginFolder, RefusesWhatIsNoPlugin) {
  EXPECT_ERROR(install("/nowhere/at/all"), WEFT_NOT_FOUND, "/nowhere/at/all");
  EXPECT_ERROR(install(files_.path()), WEFT_NOT_FOUND, "plugin.json");
  EXPECT_ERROR(install(files_.write("text", "text")), WEFT_INVALID_ARGUMENT, "tar");
  EXPECT_ERROR(install(archive({{"text", "text"}})), WEFT_INVALID_ARGUMENT, "0 files plugin.json");
  std::vector<TarEntry> two = entries("one/");
  two.push_back({"two/plugin.json", "{}"});
  EXPECT_ERROR(install(archive(two)), WEFT_INVALID_ARGUMENT, "2 files plugin.json");
  std::vector<TarEntry> more = entries("one/");
  more.push_back({"two/text", "text"});
  EXPECT_ERROR(install(archive(more)), WEFT_INVALID_ARGUMENT, "two/text");
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, RefusesAnArchiveThatLeavesItsFolder) {
  const fs::path outside = home_.path() / "outside";
  const std::vector<std::string> names_outside = {
      "../outside", "alpha/../../outside", outside.string(), "alpha/..", "a b", ".hidden"};
  for (const std::string& name : names_outside) {
    std::vector<TarEntry> wrong = entries();
    wrong.push_back({name, "x"});
    EXPECT_ERROR(install(archive(wrong)), WEFT_INVALID_ARGUMENT, name);
  }
  // A file below a link would be written where the link leads.
  for (const char type : {'1', '2'}) {
    std::vector<TarEntry> wrong = entries();
    wrong.push_back({"link", "", type, home_.path().string()});
    wrong.push_back({"link/outside", "x"});
    EXPECT_ERROR(install(archive(wrong)), WEFT_INVALID_ARGUMENT, "\"link\"", "a link");
  }
  for (const char type : {'3', '6', 'S'}) {
    std::vector<TarEntry> wrong = entries();
    wrong.push_back({"special", "", type});
    EXPECT_ERROR(install(archive(wrong)), WEFT_INVALID_ARGUMENT, "\"special\"");
  }
  std::vector<TarEntry> sparse = entries();
  sparse.push_back({"x", "22 GNU.sparse.major=1\n", 'x'});
  sparse.push_back({"inside", "x"});
  EXPECT_ERROR(install(archive(sparse)), WEFT_INVALID_ARGUMENT, "\"inside\"", "--sparse");
  // Names in the records of other formats.
  const std::vector<TarEntry> records = {{"L", "../outside", 'L'}, {"x", "19 path=../outside\n", 'x'}};
  for (const TarEntry& record : records) {
    std::vector<TarEntry> wrong = entries();
    wrong.push_back(record);
    wrong.push_back({"inside", "x"});
    EXPECT_ERROR(install(archive(wrong)), WEFT_INVALID_ARGUMENT, "\"../outside\"");
  }
  EXPECT_FALSE(fs::exists(outside));
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, RefusesADamagedArchive) {
  const std::string whole = tar(entries());
  for (const size_t size : {whole.size() - 1024, whole.size() - 2000, size_t{700}, size_t{512}}) {
    const fs::path path = files_.write("cut.tar", whole.substr(0, size));
    chmod(path.c_str(), 0644);
    EXPECT_ERROR(install(path), WEFT_DATA_LOSS, path.string());
  }
  std::string changed = whole;
  changed[whole.size() - 3000] ^= 1;
  EXPECT_ERROR(install(files_.write("changed.tar", changed)), WEFT_DATA_LOSS, "SHA-256");
  std::vector<TarEntry> twice = entries();
  twice.push_back(twice[0]);
  EXPECT_ERROR(install(archive(twice)), WEFT_INVALID_ARGUMENT, "plugin.json");
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, RefusesAnArchiveWithoutEnd) {
  std::vector<TarEntry> folders = entries(), headers = entries();
  for (int i = 0; i < 10'000; ++i) folders.push_back({"folder", "", '5'});
  EXPECT_ERROR(install(archive(folders)), WEFT_RESOURCE_EXHAUSTED, "10000 files");
  for (int i = 0; i < 100; ++i) headers.push_back({"L", "name", 'L'});
  headers.push_back({"name", "x"});
  EXPECT_ERROR(install(archive(headers)), WEFT_INVALID_ARGUMENT, "headers");
  const fs::path longer = files_.write("longer.tar", tar(entries()) + std::string(5 << 20, '\0'));
  ASSERT_EQ(std::system(fmt::format("umask 022; gzip {}", longer.string()).c_str()), 0);
  EXPECT_ERROR(install(longer.string() + ".gz"), WEFT_INVALID_ARGUMENT, "after its end");
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, RefusesAFolderThatOthersCanChange) {
  const fs::path folder = make();
  chmod((folder / "plugin.so").c_str(), 0666);
  EXPECT_ERROR(install(folder), WEFT_PERMISSION_DENIED, "plugin.so", "chmod o-w");
  chmod((folder / "plugin.so").c_str(), 0644);
  chmod(folder.c_str(), 0777);
  EXPECT_ERROR(install(folder), WEFT_PERMISSION_DENIED, folder.string(), "chmod o-w");
  chmod(folder.c_str(), 0755);
  const fs::path packed = archive(entries());
  chmod(packed.c_str(), 0666);
  EXPECT_ERROR(install(packed), WEFT_PERMISSION_DENIED, packed.string(), "chmod o-w");
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, RefusesAFolderWithLinks) {
  const fs::path folder = make();
  fs::create_symlink("/etc/hostname", folder / "data");
  EXPECT_ERROR(install(folder), WEFT_INVALID_ARGUMENT, (folder / "data").string(), "a link");
  fs::remove(folder / "data");
  fs::rename(folder / "plugin.so", files_.path() / "plugin.so");
  fs::create_symlink(files_.path() / "plugin.so", folder / "plugin.so");
  EXPECT_ERROR(install(folder), WEFT_INVALID_ARGUMENT, (folder / "plugin.so").string(), "a link");
}

TEST_F(PluginFolder, RefusesAPluginThatCannotBeLoaded) {
  std::ofstream(make() / "plugin.so", std::ios::app) << "x";
  EXPECT_ERROR(install(built_.path() / "alpha/1.0.0"), WEFT_DATA_LOSS, "TRUST", "SHA-256");
  const fs::path other = built_.install("old_abi", "alpha", "2.0.0", [](json& manifest) {
    manifest["abi"] = {{"major", 7}, {"minor_min", 3}, {"minor", 3}};
  });
  EXPECT_ERROR(install(other), WEFT_FAILED_PRECONDITION, "ABI_MAJOR");
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(PluginFolder, ChecksTheDigestBesideAnArchive) {
  const fs::path packed = archive(entries());
  files_.write("alpha.tar.sha256", std::string(64, '0') + "  alpha.tar\n");
  EXPECT_ERROR(install(packed), WEFT_DATA_LOSS, "alpha.tar.sha256", sha256_file(packed));
  files_.write("alpha.tar.sha256", sha256_file(packed) + "  alpha.tar\n");
  EXPECT_EQ(install(packed)["version"], "1.0.0");
}

TEST_F(PluginFolder, ChecksTheDigestsOfAllFiles) {
  const fs::path folder = make();
  const auto write = [](const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
    chmod(path.c_str(), 0644);
  };
  write(folder / "words", "one two");
  std::string sums;
  for (const char* name : {"plugin.json", "plugin.so"})
    sums += sha256_file(folder / name) + "  " + name + "\n";
  write(folder / "SHA256SUMS", sums);
  EXPECT_ERROR(install(folder), WEFT_DATA_LOSS, "SHA256SUMS", "words");
  for (const char* wrong : {"words", "x  words", "  words", "x  ../words", "x  /words"}) {
    write(folder / "SHA256SUMS", sums + wrong + "\n");
    EXPECT_ERROR(install(folder), WEFT_DATA_LOSS, "SHA256SUMS", "words");
  }
  write(folder / "SHA256SUMS", sums + sha256_file(folder / "words") + "  ./words\n");
  EXPECT_EQ(install(folder)["version"], "1.0.0");
}

TEST_F(PluginFolder, RefusesToChangeWhatIsNotSearched) {
  const fs::path folder = make();
  SearchPaths paths;
  paths.notes = {"WEFT_PLUGIN_PATH replaces it"};
  EXPECT_ERROR(install_plugin(paths, PluginRoot::facts(), folder), WEFT_FAILED_PRECONDITION,
               "WEFT_PLUGIN_PATH");
  EXPECT_ERROR(remove_plugin(paths, "alpha"), WEFT_FAILED_PRECONDITION, "WEFT_PLUGIN_PATH");
  EXPECT_ERROR(pin_plugin(paths, "alpha@1"), WEFT_FAILED_PRECONDITION, "WEFT_PLUGIN_PATH");
  EXPECT_ERROR(unpin_plugin(paths, "alpha"), WEFT_FAILED_PRECONDITION, "WEFT_PLUGIN_PATH");
}

TEST_F(PluginFolder, RefusesASecondChangeAtATime) {
  const fs::path folder = make();
  install(folder);
  const int lock = ::open((own_ / ".lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_ERROR(pin_plugin(paths(), "alpha@1"), WEFT_UNAVAILABLE, own_.string());
  ::close(lock);
  EXPECT_EQ(pin_plugin(paths(), "alpha@1")["version"], "1.0.0");
}

TEST_F(PluginFolder, InstallsFoldersAndArchives) {
  const fs::path folder = own_ / "alpha/1.0.0";
  EXPECT_EQ(install(make()), json({{"id", "alpha"}, {"version", "1.0.0"}, {"folder", folder.string()}}));
  EXPECT_EQ(used(), "1.0.0");
  EXPECT_EQ(names(), std::vector<std::string>{"alpha"}) << "nothing is left over";
  EXPECT_ERROR(install(built_.path() / "alpha/1.0.0"), WEFT_ALREADY_EXISTS, folder.string());
  for (const char* below : {"", "./", "some/folders/alpha/"}) {
    remove_plugin(paths(), "alpha");
    EXPECT_EQ(names(), std::vector<std::string>{});
    install(archive(entries(below)));
    EXPECT_EQ(used(), "1.0.0");
    EXPECT_EQ(fs::status(folder / "plugin.so").permissions(), fs::perms(0644));
  }
}

TEST_F(PluginFolder, ReadsWhatTarAndItsCompressorsWrite) {
  make();
  for (const char* arguments :
       {"--format=gnu -cf", "--format=pax -cf", "--format=ustar -cf", "-czf", "-cJf", "--zstd -cf"}) {
    const fs::path path = files_.path() / "packed";
    fs::remove(path);
    const std::string long_name(90, 'n');
    fs::create_directories(built_.path() / "alpha/1.0.0" / long_name);
    std::ofstream(built_.path() / "alpha/1.0.0" / long_name / long_name.substr(0, 8)) << "text";
    const std::string command = fmt::format("umask 022; cd {} && tar {} {} alpha/1.0.0 2>/dev/null",
                                            built_.path().string(), arguments, path.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    install(path);
    EXPECT_EQ(read_file(own_ / "alpha/1.0.0" / long_name / long_name.substr(0, 8), 10), "text") << arguments;
    std::string bytes = read_file(path, 1 << 24);
    bytes.resize(bytes.size() / 2);
    std::ofstream(path, std::ios::binary) << bytes;
    remove_plugin(paths(), "alpha");
    EXPECT_ERROR(install(path), WEFT_DATA_LOSS, path.string());
  }
}

TEST_F(PluginFolder, RemovesNothingThatIsNotMeant) {
  system_.install("alpha_1.0.0", "alpha", "1.0.0");
  EXPECT_ERROR(remove_plugin(paths(), "alpha"), WEFT_NOT_FOUND, own_.string(), system_.path().string());
  install(make("1.0.0"));
  install(make("1.1.0"));
  EXPECT_ERROR(remove_plugin(paths(), "alpha"), WEFT_INVALID_ARGUMENT, "1.0.0", "1.1.0");
  EXPECT_ERROR(remove_plugin(paths(), "alhpa"), WEFT_NOT_FOUND, "did you mean \"alpha\"?");
  EXPECT_ERROR(remove_plugin(paths(), "alpha@2"), WEFT_NOT_FOUND, "alpha@2", "1.1.0");
  pin_plugin(paths(), "alpha@1.1");
  EXPECT_ERROR(remove_plugin(paths(), "alpha@1.1"), WEFT_FAILED_PRECONDITION, "`weft plugins unpin alpha`");
  EXPECT_EQ(remove_plugin(paths(), "family@1.0")["version"], "1.0.0");
  EXPECT_EQ(used(), "1.1.0");
}

TEST_F(PluginFolder, PinsWhatIsInstalled) {
  system_.install("alpha_1.0.0", "alpha", "1.0.0");
  EXPECT_ERROR(pin_plugin(paths(), "alpha"), WEFT_INVALID_ARGUMENT, "alpha@1.0.0");
  EXPECT_ERROR(pin_plugin(paths(), "alpha@1.1"), WEFT_NOT_FOUND, "version 1.1", "1.0.0 in");
  EXPECT_ERROR(pin_plugin(paths(), "alpha@one"), WEFT_INVALID_ARGUMENT, "\"one\"");
  EXPECT_ERROR(unpin_plugin(paths(), "alpha"), WEFT_NOT_FOUND, "\"alpha\"");
  EXPECT_EQ(install(make("1.1.0")).count("pinned"), 0u);
  EXPECT_EQ(pin_plugin(paths(), "family@=1.0.0"),
            json({{"id", "alpha"}, {"pinned", "=1.0.0"}, {"version", "1.0.0"}}));
  EXPECT_EQ(used(), "1.0.0");
  remove_plugin(paths(), "alpha@1.1");
  EXPECT_EQ(install(make("1.1.0"))["pinned"], "=1.0.0");
  EXPECT_EQ(used(), "1.0.0") << "an installation does not change what is pinned";
  EXPECT_EQ(unpin_plugin(paths(), "family"), json({{"id", "alpha"}, {"pinned", "=1.0.0"}}));
  EXPECT_EQ(used(), "1.1.0");
}

TEST_F(PluginFolder, MarksTheVersionThatAJobTakesAsTheDefault) {
  const auto make_default = [](json& manifest) { manifest["default"] = true; };
  for (const char* version : {"1.0.0", "1.1.0"})
    system_.install(std::string("alpha_") + version, "alpha", version, make_default);
  const auto defaults = [&] {
    std::vector<std::string> versions;
    const json listing = make_listing(scan(paths()), PluginRoot::facts(), false);
    for (const json& plugin : listing.at("plugins"))
      if (plugin.at("default").get<bool>()) versions.push_back(plugin.at("version"));
    return versions;
  };
  EXPECT_EQ(defaults(), std::vector<std::string>{"1.1.0"});
  pin_plugin(paths(), "alpha@1.0");
  EXPECT_EQ(defaults(), std::vector<std::string>{"1.0.0"});
}

TEST_F(PluginFolder, TakesNoDamagedVersionForOneThatCanBeUsed) {
  install(make("1.0.0"));
  install(make("1.1.0"));
  EXPECT_EQ(pin_plugin(paths(), "alpha@1.0")["version"], "1.0.0");
  std::ofstream(own_ / "alpha/1.1.0/plugin.json") << "{";
  EXPECT_ERROR(pin_plugin(paths(), "alpha@1.1"), WEFT_NOT_FOUND, "1.1.0 (damaged)");
  pin_plugin(paths(), "alpha@1");
  EXPECT_ERROR(remove_plugin(paths(), "alpha@1.0"), WEFT_FAILED_PRECONDITION, "only 1.0.0 is");
  EXPECT_EQ(remove_plugin(paths(), "alpha@1.1")["version"], "1.1.0");
}

TEST_F(PluginFolder, UnpinsWhatIsNoLongerInstalled) {
  install(make());
  pin_plugin(paths(), "alpha@1");
  fs::remove_all(own_ / "alpha");
  EXPECT_EQ(unpin_plugin(paths(), "alpha"), json({{"id", "alpha"}, {"pinned", "1"}}));
  EXPECT_ERROR(unpin_plugin(paths(), "alpha"), WEFT_NOT_FOUND, "\"alpha\"");
}

TEST_F(PluginFolder, WritesPinsThatOnlyTheirOwnerCanChange) {
  const mode_t before = umask(0);
  install(make());
  pin_plugin(paths(), "alpha@1");
  umask(before);
  EXPECT_EQ(fs::status(own_ / "pins.json").permissions(), fs::perms(0644));
  EXPECT_EQ(used(), "1.0.0");
}

TEST_F(PluginFolder, AsksOfSeveralPluginsWhichIsMeant) {
  system_.install("alpha_1.0.0", "alpha", "1.0.0");
  system_.install("beta_1.0.0", "beta", "1.0.0");
  EXPECT_ERROR(pin_plugin(paths(), "family@1"), WEFT_INVALID_ARGUMENT, "alpha, beta");
  EXPECT_EQ(pin_plugin(paths(), "beta@1")["id"], "beta");
}

}  // namespace
}  // namespace weft::host
