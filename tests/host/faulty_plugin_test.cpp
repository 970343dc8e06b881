// Plugins as they should not be: each is refused at its stage, with both sides' values and the path, and the
// process goes on.
#include <fstream>

#include "base/files.hpp"
#include "host/expect_error.hpp"
#include "host/inspect.hpp"
#include "host/plugin_root.hpp"
#include "host/validate.hpp"

namespace weft::host {
namespace {

using nlohmann::json;
using testing::PluginRoot;

class FaultyPlugin : public ::testing::Test {
 protected:
  void install(
      const char* library, const std::function<void(json&)>& change = [](json&) {}) {
    folder_ = root_.install(library, "alpha", "1.0.0", change);
    path_ = (folder_ / "plugin.so").string();
  }
  // The manifest with the digest of what the library has become.
  void rewrite(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    json manifest = json::parse(read_file(folder_ / "plugin.json", 1 << 20));
    manifest["libraries"][0]["sha256"] = sha256_hex(bytes);
    std::ofstream(folder_ / "plugin.json") << manifest.dump();
  }

  PluginRoot root_;
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(FaultyPlugin, IsRefusedForAnotherAbiMajor) {
  const auto folder = root_.install("old_abi", "alpha", "2.0.0", [](json& manifest) {
    manifest["abi"] = {{"major", 7}, {"minor_min", 3}, {"minor", 3}};
  });
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "shard_policy \"alpha\" 2.0.0 at " + folder.string(),
               "ABI_MAJOR: built for Weft's ABI 7.3, this Weft speaks 0.2", "searched");
}

TEST_F(FaultyPlugin, IsRefusedForAnotherTorchTag) {
  root_.install("other_torch", "alpha", "3.0.0", [](json& manifest) {
    manifest["libraries"][0]["tier"] = "torch";
    manifest["libraries"][0]["torch_tag"] = "torch=1.13";
  });
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "TORCH_TAG", "libtorch \"torch=1.13\"",
               testing::kTorchTag, "rebuild it");
}

// A strategy of tier stable that runs with this libtorch and later ones.
auto stable_strategy(const char* torch_min) {
  return [torch_min](json& manifest) {
    json& library = manifest["libraries"][0];
    library["kind"] = "strategy";
    library["tier"] = "stable";
    library["torch_min"] = torch_min;
  };
}

TEST_F(FaultyPlugin, OfTierStableIsRefusedForAnOlderTorch) {
  root_.install("stable_later", "alpha", "3.1.0", stable_strategy("2.13.0"));
  EXPECT_ERROR(root_.load("family", "", "strategy"), WEFT_FAILED_PRECONDITION, "TORCH_TAG",
               "libtorch 2.13.0 and later", testing::kTorchTag);
  const Catalogue catalogue = root_.scan();
  const Candidate later = catalogue.find("strategy", "family").at(0);
  HostFacts facts = PluginRoot::facts();
  for (const char* tag : {"torch=2.13.0,dist=gloo", "torch=2.13.1", "torch=2.15.0"}) {
    facts.torch_tag = tag;
    EXPECT_NO_THROW(check_compatible(later, facts)) << tag;
  }
  for (const char* tag : {"torch=2.12.9", "torch=3.0.0", "torch=1.14.0", "2.13.0", ""}) {
    facts.torch_tag = tag;
    EXPECT_ERROR(check_compatible(later, facts), WEFT_FAILED_PRECONDITION, "TORCH_TAG");
  }
}

TEST_F(FaultyPlugin, OfTierStableIsRefusedForACxxFunctionOfTorch) {
  root_.install("stable_cxx", "alpha", "3.2.0", stable_strategy("2.10.0"));
  EXPECT_ERROR(root_.load("family", "", "strategy"), WEFT_FAILED_PRECONDITION, "TIER", "tier stable",
               "_ZN2at4_ops6detach4callERKNS_6TensorE", "torch/csrc/stable");
}

TEST_F(FaultyPlugin, IsRefusedForAnotherBuild) {
  install("alpha_1.0.0", [](json& manifest) {
    manifest["libraries"][0]["tier"] = "native";
    manifest["libraries"][0]["torch_tag"] = testing::kTorchTag;
    manifest["libraries"][0]["build_id"] = "older";
  });
  const Catalogue catalogue = root_.scan();
  const std::vector<Candidate> candidates = catalogue.find("shard_policy", "family");
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_ERROR(check_compatible(candidates[0], PluginRoot::facts()), WEFT_FAILED_PRECONDITION, "TIER",
               "tier native", "build older", "build build");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "NOTE", "tier \"c\", its manifest \"native\"");
}

TEST_F(FaultyPlugin, WithAMissingSymbol) {
  install("missing_symbol");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "DLOPEN", "weft_test_function_that_is_nowhere", path_,
               "ldd -r");
}

TEST_F(FaultyPlugin, Truncated) {
  install("alpha_1.0.0");
  const std::string bytes = read_file(path_, 1 << 24);
  std::ofstream(path_, std::ios::binary) << bytes.substr(0, 2000);
  EXPECT_ERROR(root_.load(), WEFT_DATA_LOSS, "NOTE", "cut off", path_);
  rewrite(bytes.substr(0, 2000));  // even with a manifest that says so
  EXPECT_ERROR(root_.load(), WEFT_DATA_LOSS, "NOTE", "cut off");
}

TEST_F(FaultyPlugin, IsRefusedIfItIsNotElf) {
  install("alpha_1.0.0");
  rewrite("#!/bin/sh\necho\n");
  EXPECT_ERROR(root_.load(), WEFT_DATA_LOSS, "NOTE", path_, "ELF library");
}

TEST_F(FaultyPlugin, ForAnotherMachine) {
  install("alpha_1.0.0");
  std::string bytes = read_file(path_, 1 << 24);
  bytes[18] = 40;  // e_machine: EM_ARM
  bytes[19] = 0;
  rewrite(bytes);
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "ARCH", "for arm", "process needs");
  bytes[4] = 1;  // 32 bits
  rewrite(bytes);
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "ARCH", "32 bits");
}

TEST_F(FaultyPlugin, WhoseManifestAndNoteDisagree) {
  install("alpha_1.1.0");  // in the folder and manifest of 1.0.0
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "NOTE", "version \"1.1.0\", its manifest \"1.0.0\"");
}

TEST_F(FaultyPlugin, WithoutANote) {
  install("no_note");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "NOTE", "no note", "weft_add_plugin");
}

TEST_F(FaultyPlugin, WithoutItsLibrary) {
  install("alpha_1.0.0");
  std::filesystem::remove(path_);
  EXPECT_ERROR(root_.load(), WEFT_NOT_FOUND, "FIND", path_);
}

TEST_F(FaultyPlugin, IsRefusedIfEverybodyCanWriteIt) {
  install("alpha_1.0.0");
  chmod(path_.c_str(), 0777);
  EXPECT_ERROR(root_.load(), WEFT_PERMISSION_DENIED, "TRUST", path_, "by everybody", "chmod o-w");
  chmod(path_.c_str(), 0755);
  chmod((folder_ / "plugin.json").c_str(), 0666);
  EXPECT_ERROR(root_.load(), WEFT_PERMISSION_DENIED, "TRUST", "plugin.json", "by everybody");
}

TEST_F(FaultyPlugin, IsRefusedForAnotherDigest) {
  install("alpha_1.0.0", [](json& manifest) { manifest["libraries"][0]["sha256"] = std::string(64, '0'); });
  EXPECT_ERROR(root_.load(), WEFT_DATA_LOSS, "TRUST", sha256_file(path_), std::string(64, '0'));
}

TEST_F(FaultyPlugin, WithoutAnEntry) {
  install("no_entry");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "ENTRY", "weft_plugin_query_v1");
}

TEST_F(FaultyPlugin, IsRefusedIfItRefusesTheHost) {
  install("refusing");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "NEGOTIATE", "this machine has no quince");
}

TEST_F(FaultyPlugin, IsRefusedIfItsManifestHasAnotherVersion) {
  install("false_version");
  EXPECT_ERROR(root_.load(), WEFT_FAILED_PRECONDITION, "NEGOTIATE",
               "version \"9.9.9\", its manifest \"1.0.0\"");
}

TEST_F(FaultyPlugin, IsRefusedAsAKindThatItIsNot) {
  install("alpha_1.0.0", [](json& manifest) { manifest["libraries"][0]["kind"] = "strategy"; });
  EXPECT_ERROR(root_.load("family", "", "strategy"), WEFT_FAILED_PRECONDITION, "TABLE_VALIDATE",
               "weft.factory.strategy/1");
}

TEST_F(FaultyPlugin, IsRefusedIfItThrows) {
  install("throwing");
  EXPECT_ERROR(root_.load(), WEFT_INTERNAL, "shard_policy \"alpha\" 1.0.0", "C++ exception", "quince");
}

TEST_F(FaultyPlugin, WhoseInitFails) {
  install("failing_init");
  EXPECT_ERROR(root_.load(), WEFT_RESOURCE_EXHAUSTED, "INIT", "there is no quince left");
}

TEST_F(FaultyPlugin, NeedsTheEngineWhereThereIsNone) {
  root_.install("other_torch", "alpha", "3.0.0", [](json& manifest) {
    manifest["libraries"][0]["tier"] = "torch";
    manifest["libraries"][0]["torch_tag"] = "torch=1.13";
  });
  HostFacts facts = PluginRoot::facts();
  facts.torch_tag = "torch=1.13";
  const Catalogue catalogue = root_.scan();
  EXPECT_ERROR(resolve(catalogue, facts, "shard_policy", "family", ""), WEFT_NOT_FOUND, "DLOPEN",
               "/nowhere/libweft_engine.so", "install Weft whole");
}

// What validate() tells, as one object.
json report_of(const std::filesystem::path& file) {
  json report = {{"passed", true}, {"libraries", json::array()}};
  validate(file, PluginRoot::facts(), [&](const json& event) {
    if (event.contains("library")) {
      report["libraries"].push_back(event["library"]);
      report["libraries"].back()["checks"] = json::array();
    } else if (event.contains("check")) {
      report["libraries"].back()["checks"].push_back(event["check"]);
      if (!event["check"]["passed"].get<bool>()) report["passed"] = false;
    }
  });
  return report;
}

TEST(Validate, NamesTheStageThatFailed) {
  PluginRoot root;
  const auto folder = root.install("no_entry", "alpha", "1.0.0");
  const json report = report_of(folder);
  EXPECT_FALSE(report["passed"].get<bool>());
  const json& last = report["libraries"][0]["checks"].back();
  EXPECT_EQ(last["name"], "ENTRY");
  EXPECT_FALSE(last["passed"].get<bool>());
  EXPECT_ERROR(report_of("/nowhere"), WEFT_NOT_FOUND, "/nowhere");
}

TEST(Validate, PassesAGoodPlugin) {
  PluginRoot root;
  const auto folder = root.install("alpha_1.0.0", "alpha", "1.0.0");
  for (const auto& file : {folder, folder / "plugin.so", folder / "plugin.json"}) {
    const json report = report_of(file);
    EXPECT_TRUE(report["passed"].get<bool>()) << report.dump(2);
    EXPECT_EQ(report["libraries"].size(), 1u);
  }
}

TEST(Validate, JudgesALinkedFolderAsTheLoaderDoes) {
  PluginRoot elsewhere, root;
  const auto target = elsewhere.install("alpha_1.0.0", "alpha", "1.0.0");
  std::filesystem::create_directory(root.path() / "alpha");
  chmod((root.path() / "alpha").c_str(), 0755);
  const auto link = root.path() / "alpha" / "1.0.0";
  std::filesystem::create_directory_symlink(target, link);
  EXPECT_ERROR(root.load(), WEFT_PERMISSION_DENIED, "TRUST", "outside of");
  const json report = report_of(link);
  EXPECT_FALSE(report["passed"].get<bool>());
  EXPECT_EQ(report["libraries"][0]["checks"].back()["name"], "TRUST") << report.dump(2);
  EXPECT_TRUE(report_of(target)["passed"].get<bool>());
}

TEST(Validate, FollowsLinksToAPluginAndJudgesTheTarget) {
  PluginRoot root;
  testing::TemporaryFolder other;
  const auto folder = root.install("alpha_1.0.0", "alpha", "1.0.0");
  std::filesystem::rename(folder / "plugin.so", folder / "real.so");
  std::filesystem::create_symlink("real.so", folder / "plugin.so");
  std::filesystem::create_symlink(folder, other.path() / "folder");
  const auto links = {folder / "plugin.so", other.path() / "folder", other.path() / "folder/plugin.so",
                      other.path() / "folder/../1.0.0"};
  chmod((folder / "real.so").c_str(), 0777);
  for (const auto& link : links) {
    const json report = report_of(link);
    EXPECT_FALSE(report["passed"].get<bool>()) << link;
    EXPECT_EQ(report["libraries"][0]["checks"].back()["name"], "TRUST") << report.dump(2);
  }
  chmod((folder / "real.so").c_str(), 0755);
  for (const auto& link : links) EXPECT_TRUE(report_of(link)["passed"].get<bool>()) << link;
}

TEST(Validate, TakesALinkToALibraryForTheLibrary) {
  PluginRoot root;
  testing::TemporaryFolder other;
  const auto folder = root.install("alpha_1.0.0", "alpha", "1.0.0");
  std::filesystem::create_symlink(folder / "plugin.so", other.path() / "mine.so");
  EXPECT_TRUE(report_of(other.path() / "mine.so")["passed"].get<bool>());
}

}  // namespace
}  // namespace weft::host
