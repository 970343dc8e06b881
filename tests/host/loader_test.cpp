// From a name to a loaded library: which one is taken, and what is said when there is none.
#include "host/loader.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/expect_error.hpp"
#include "host/listing.hpp"
#include "host/plugin_root.hpp"

namespace weft::host {
namespace {

using nlohmann::json;
using testing::PluginRoot;
using testing::ScopedEnvironment;

TEST(Resolve, NamesTheNearestTheFoundAndTheSearched) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  EXPECT_ERROR(root.load("famliy"), WEFT_NOT_FOUND, "family \"famliy\"; did you mean \"family\"?",
               "Found: alpha 1.0.0", "searched " + root.path().string(), "`weft plugins doctor`");
  EXPECT_ERROR(root.load("zebra"), WEFT_NOT_FOUND, "\"zebra\". Found: alpha 1.0.0");
  EXPECT_ERROR(root.load("family", "", "strategy"), WEFT_NOT_FOUND, "no strategy", "\"family\"",
               "Found: nothing");
  EXPECT_ERROR(root.load("family", "3.0.0"), WEFT_NOT_FOUND, "version 3.0.0", "alpha 1.0.0");
  EXPECT_ERROR(root.load("family", "", "stratgy"), WEFT_INVALID_ARGUMENT, "\"stratgy\"",
               "did you mean \"strategy\"?");
}

TEST(Resolve, WritesTheFirstLineWhole) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  try {
    root.load("famliy");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string line = text.substr(0, text.find('\n'));
    for (const char* part : {"shard policy", "family \"famliy\"; did you mean \"family\"?", "alpha 1.0.0"})
      EXPECT_NE(line.find(part), std::string::npos) << line;
  }
}

TEST(Resolve, TellsWhyTheOneThatWasMeantIsKeptAway) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0", [](json& manifest) { manifest.erase("abi"); });
  EXPECT_ERROR(root.load("alpha"), WEFT_NOT_FOUND, "passed over: " + root.path().string(), "MANIFEST",
               "has no \"abi\"");

  const ScopedEnvironment disable("WEFT_PLUGIN_DISABLE", "bet*");
  PluginRoot other;
  other.install("beta_1.0.0", "beta", "1.0.0");
  Catalogue catalogue = scan([&] {
    SearchPaths paths = find_search_paths({other.path().string()}, false, "/nowhere");
    return paths;
  }());
  EXPECT_ERROR(resolve(catalogue, PluginRoot::facts(), "shard_policy", "family", ""), WEFT_NOT_FOUND,
               "left out", "WEFT_PLUGIN_DISABLE=bet*");
}

TEST(Resolve, RefusesTwoPluginsOfOneName) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  root.install("beta_1.0.0", "beta", "1.0.0");
  EXPECT_ERROR(root.load(), WEFT_ALREADY_EXISTS, "REGISTER: shard_policy \"family\"", "provided twice",
               "alpha 1.0.0", "beta 1.0.0", "WEFT_PLUGIN_DISABLE=beta");
}

TEST(Resolve, RefusesANameThatALoadedPluginHasAlready) {
  const auto provide = [](json& manifest) { manifest["libraries"][0]["provides"] = {"taken_family"}; };
  PluginRoot first, second;
  first.install("alpha_1.0.0", "alpha", "1.0.0", provide);
  second.install("beta_1.0.0", "beta", "1.0.0", provide);
  first.load("taken_family");
  EXPECT_ERROR(second.load("taken_family"), WEFT_ALREADY_EXISTS, "REGISTER", "alpha 1.0.0");
}

TEST(Resolve, WantsExactlyOneDefault) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  EXPECT_ERROR(root.load(""), WEFT_NOT_FOUND, "no shard_policy", "the default", "Found: alpha 1.0.0");
  root.install("alpha_1.1.0", "alpha", "1.1.0", [](json& manifest) { manifest["default"] = true; });
  EXPECT_EQ(root.load("").version, "1.1.0");
  root.install("beta_1.0.0", "beta", "1.0.0", [](json& manifest) { manifest["default"] = true; });
  EXPECT_ERROR(root.load(""), WEFT_ALREADY_EXISTS, "alpha 1.1.0", "beta 1.0.0");
}

TEST(Resolve, PrefersTheDefaultThatIsInstalledWithWeft) {
  PluginRoot own, user;
  const auto says_default = [](json& manifest) { manifest["default"] = true; };
  user.install("beta_1.0.0", "beta", "1.0.0", says_default);
  host::SearchPaths paths;
  paths.roots = {{user.path(), "test"}, {own.path(), "test", true}};
  const auto default_of = [&] {
    const host::Catalogue catalogue = host::scan(paths);
    std::vector<std::string> found;
    for (const host::Candidate& candidate : catalogue.find("shard_policy", ""))
      found.push_back(candidate.installed->id + " " + candidate.installed->version);
    return found;
  };
  EXPECT_EQ(default_of(), std::vector<std::string>{"beta 1.0.0"}) << "Weft has none";
  own.install("alpha_1.0.0", "alpha", "1.0.0", says_default);
  EXPECT_EQ(default_of(), std::vector<std::string>{"alpha 1.0.0"});
  user.install("alpha_1.1.0", "alpha", "1.1.0", says_default);
  EXPECT_EQ(default_of(), (std::vector<std::string>{"alpha 1.1.0", "alpha 1.0.0"})) << "an update of Weft's";
  EXPECT_TRUE(host::scan(paths).find("strategy", "").empty());
  paths.disable = {"alpha"};
  EXPECT_EQ(default_of(), std::vector<std::string>{"beta 1.0.0"});
}

TEST(Resolve, TakesTheNewestVersionAndBothCanBeLoaded) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  const LoadedLibrary& old = root.load();
  EXPECT_EQ(old.version, "1.0.0");
  root.install("alpha_1.1.0", "alpha", "1.1.0");  // while this process runs
  const LoadedLibrary& latest = root.load();
  EXPECT_EQ(latest.version, "1.1.0");
  EXPECT_NE(old.plugin, latest.plugin);
  EXPECT_EQ(&root.load("family", "1.0.0"), &old);
  EXPECT_NE(old.plugin->get_factory(old.plugin, WEFT_STR("weft.factory.shard_policy/1")),
            latest.plugin->get_factory(latest.plugin, WEFT_STR("weft.factory.shard_policy/1")));
}

TEST(Resolve, TakesTheFirstFolderOfOneVersion) {
  PluginRoot first, second;
  first.install("alpha_1.0.0", "alpha", "1.0.0");
  second.install("alpha_1.0.0", "alpha", "1.0.0");
  SearchPaths paths;
  paths.roots = {{second.path(), "a"}, {first.path(), "b"}};
  const Catalogue catalogue = scan(paths);
  const LoadedLibrary& library = resolve(catalogue, PluginRoot::facts(), "shard_policy", "family", "");
  EXPECT_TRUE(library.path.starts_with(second.path().string())) << library.path;
  const json listing = make_listing(catalogue, PluginRoot::facts(), false);
  EXPECT_FALSE(listing["plugins"][0].contains("problem"));
  EXPECT_NE(listing["plugins"][1]["problem"].get<std::string>().find("found earlier"), std::string::npos);
}

TEST(Resolve, PassesOverANewerVersionThatIsForAnotherHost) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  root.install("old_abi", "alpha", "2.0.0", [](json& manifest) {
    manifest["abi"] = {{"major", 7}, {"minor_min", 3}, {"minor", 3}};
  });
  EXPECT_EQ(root.load().version, "1.0.0");
  EXPECT_ERROR(root.load("family", "2.0.0"), WEFT_FAILED_PRECONDITION, "ABI_MAJOR");
}

TEST(Resolve, DoesNotPassOverADamagedNewerVersion) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  const auto folder = root.install("alpha_1.1.0", "alpha", "1.1.0");
  std::ofstream(folder / "plugin.so", std::ios::app) << "x";
  EXPECT_ERROR(root.load(), WEFT_DATA_LOSS, "shard_policy \"alpha\" 1.1.0", "TRUST", "SHA-256");
}

TEST(Resolve, LoadsALibraryOnce) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  const size_t before = loaded_libraries().size();
  const LoadedLibrary& library = root.load();
  EXPECT_EQ(&root.load(), &library);
  EXPECT_EQ(loaded_libraries().size(), before + 1);
  EXPECT_EQ(library.id, "alpha");
  EXPECT_EQ(library.abi_minor, uint32_t{WEFT_ABI_MINOR});
  EXPECT_EQ(library.digest, sha256_file(library.path));
}

TEST(Catalogue, RefusesAFolderOfAnotherName) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0", [](json& manifest) { manifest["version"] = "1.0.1"; });
  ASSERT_EQ(root.scan().plugins.size(), 1u);
  const std::string problem = *root.scan().plugins[0].problem;
  for (const char* part : {"alpha 1.0.1", "alpha 1.0.0"})
    EXPECT_NE(problem.find(part), std::string::npos) << problem;
}

TEST(Catalogue, IsNotEndedByALinkThatLeadsNowhere) {
  PluginRoot root;
  std::filesystem::create_symlink("/nowhere/at/all", root.path() / "aaa");
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  std::filesystem::create_symlink("/nowhere/at/all", root.path() / "alpha" / "0.0.1");
  root.install("beta_1.0.0", "beta", "1.0.0");
  EXPECT_EQ(root.scan().plugins.size(), 2u);
}

TEST(Catalogue, IsEmptyWithoutAFolder) {
  SearchPaths paths;
  paths.roots = {{"/nowhere/at/all", "test"}};
  const Catalogue catalogue = scan(paths);
  EXPECT_TRUE(catalogue.plugins.empty());
  EXPECT_FALSE(make_listing(catalogue, PluginRoot::facts(), false)["searched"][0]["exists"].get<bool>());
}

TEST(Resolve, NamesASelectionThatLeavesEverythingOut) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  SearchPaths paths;
  paths.roots = {{root.path(), "test"}};
  paths.select = {"alhpa", "beta"};
  EXPECT_ERROR(resolve(scan(paths), PluginRoot::facts(), "shard_policy", "other", ""), WEFT_NOT_FOUND,
               "Found: nothing of this kind", "WEFT_PLUGIN_SELECT=alhpa:beta");
}

TEST(Listing, NamesProblemsAndLoadsNothing) {
  PluginRoot root;
  root.install("alpha_1.0.0", "alpha", "1.0.0");
  root.install("beta_1.0.0", "beta", "1.0.0", [](json& manifest) {
    manifest["abi"] = {{"major", 0}, {"minor_min", 9}, {"minor", 9}};
  });
  const auto folder = root.install("beta_1.0.0", "beta", "1.2.0");
  chmod((folder / "plugin.so").c_str(), 0777);
  const size_t before = loaded_libraries().size();
  const json listing = make_listing(root.scan(), PluginRoot::facts(), false);
  ASSERT_EQ(listing["plugins"].size(), 3u);
  EXPECT_FALSE(listing["plugins"][0].contains("problem"));
  EXPECT_FALSE(listing["plugins"][1].contains("problem"));
  EXPECT_NE(listing["plugins"][2]["problem"].get<std::string>().find("ABI_MINOR"), std::string::npos);
  const json deep = make_listing(root.scan(), PluginRoot::facts(), true);
  EXPECT_NE(deep["plugins"][1]["problem"].get<std::string>().find("NOTE"), std::string::npos);
  EXPECT_EQ(loaded_libraries().size(), before);
}

TEST(OneTorch, IsMissedWhereATierNeedsIt) {
  EXPECT_ERROR(check_one_torch(true), WEFT_FAILED_PRECONDITION, "DOUBLE_TORCH", "no libtorch_cpu");
  EXPECT_NO_THROW(check_one_torch(false));
}

}  // namespace
}  // namespace weft::host
