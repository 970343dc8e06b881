// Which version of a plugin is taken: the newest, the one that is named, the one that is pinned.
#include <algorithm>

#include "base/text.hpp"
#include "host/expect_error.hpp"
#include "host/listing.hpp"
#include "host/loader.hpp"
#include "host/plugin_root.hpp"
#include "host/semantic_version.hpp"

namespace weft::host {
namespace {

using nlohmann::json;
using testing::PluginRoot;

TEST(VersionRequest, RefusesWhatIsNoVersion) {
  for (const char* wrong : {"new", "1.", ".1", "1..2", "1.2.3.4", "=", "=1", "=1.2", "v1.2.3", "1.x", "-1",
                            "1.2-rc.1", "1 ", "99999999999999999999", "@1"})
    EXPECT_ERROR(VersionRequest(wrong, "the thing"), WEFT_INVALID_ARGUMENT, "the thing", wrong);
  EXPECT_ERROR(split_name("alpha@"), WEFT_INVALID_ARGUMENT, "\"alpha@\"");
}

TEST(VersionRequest, MatchesWholeNumbersAndNamedPreReleases) {
  const std::vector<std::string> versions = {"0.3.0",      "0.3.9", "0.30.0",    "0.3.1-rc.1", "1.0.0-rc.1",
                                             "1.0.0-rc.2", "1.0.0", "1.0.0+old", "10.3.0"};
  using Names = std::vector<std::string>;
  const auto matched = [&](const char* text) {
    Names found;
    std::copy_if(versions.begin(), versions.end(), std::back_inserter(found),
                 [request = VersionRequest(text)](const auto& version) { return request.matches(version); });
    return found;
  };
  EXPECT_EQ(matched(""), (Names{"0.3.0", "0.3.9", "0.30.0", "1.0.0", "1.0.0+old", "10.3.0"}));
  EXPECT_EQ(matched("0"), (Names{"0.3.0", "0.3.9", "0.30.0"}));
  EXPECT_EQ(matched("0.3"), (Names{"0.3.0", "0.3.9"}));
  EXPECT_EQ(matched("1.0.0"), (Names{"1.0.0", "1.0.0+old"}));
  EXPECT_EQ(matched("=1.0.0"), (Names{"1.0.0"}));
  EXPECT_EQ(matched("=1.0.0+old"), (Names{"1.0.0+old"}));
  EXPECT_EQ(matched("1.0.0+old"), (Names{"1.0.0+old"}));
  EXPECT_EQ(matched("1.0.0-rc.1"), (Names{"1.0.0-rc.1"}));
  EXPECT_EQ(matched("=1.0.0-rc.2"), (Names{"1.0.0-rc.2"}));
  EXPECT_EQ(matched("=0.3.1"), Names{});
}

// The library of alpha 1.0.0 or 1.1.0, or one that cannot be loaded, under any version.
class Versions : public ::testing::Test {
 protected:
  std::filesystem::path install(const std::string& version) {
    return root_.install("alpha_" + version, "alpha", version);
  }
  void pin(const std::string& text) { pin_file(json({{"pins", {{"alpha", text}}}}).dump()); }
  void pin_file(const std::string& text) {
    std::ofstream(root_.path() / "pins.json") << text;
    chmod((root_.path() / "pins.json").c_str(), 0644);
  }
  Catalogue scan() {
    SearchPaths paths;
    paths.roots = {{root_.path(), "your own"}};
    paths.own = root_.path();
    return host::scan(paths);
  }
  std::string load(const std::string& name = "family", const std::string& version = "") {
    return resolve(scan(), PluginRoot::facts(), "shard_policy", name, version).version;
  }

  PluginRoot root_;
};

TEST_F(Versions, RefuseARequestThatNothingMeets) {
  install("1.0.0");
  EXPECT_ERROR(load("family@2"), WEFT_NOT_FOUND, "shard_policy \"family\"", "version 2.", "alpha 1.0.0");
  EXPECT_ERROR(load("family@=1.0.1"), WEFT_NOT_FOUND, "version =1.0.1", "alpha 1.0.0");
  EXPECT_ERROR(load("family@one"), WEFT_INVALID_ARGUMENT, "shard_policy \"family\"", "\"one\"");
  EXPECT_ERROR(load("family@1.0", "1.0"), WEFT_INVALID_ARGUMENT, "\"family@1.0\"", "\"1.0\"");
  EXPECT_ERROR(load("famliy@1.0"), WEFT_NOT_FOUND, "\"famliy\"; did you mean \"family\"?");
}

TEST_F(Versions, AreChosenByNameOrByArgument) {
  install("1.0.0");
  install("1.1.0");
  EXPECT_EQ(load(), "1.1.0");
  EXPECT_EQ(load("family@1"), "1.1.0");
  EXPECT_EQ(load("family@1.0"), "1.0.0");
  EXPECT_EQ(load("family@=1.0.0"), "1.0.0");
  EXPECT_EQ(load("family", "1.0"), "1.0.0");
  EXPECT_EQ(load("family", "1.1.0"), "1.1.0");
}

TEST_F(Versions, ArePreReleasesOnlyWhereTheyAreNamed) {
  root_.install("alpha_1.0.0", "alpha", "2.0.0-rc.1");
  EXPECT_ERROR(load(), WEFT_NOT_FOUND, "pre-releases", "alpha@2.0.0-rc.1");
  install("1.0.0");
  EXPECT_EQ(load(), "1.0.0");
  // It is found: the library inside is of another version.
  EXPECT_ERROR(load("family@2.0.0-rc.1"), WEFT_FAILED_PRECONDITION, "alpha\" 2.0.0-rc.1", "NOTE");
}

TEST_F(Versions, ArePinnedAndRolledBack) {
  install("1.0.0");
  install("1.1.0");
  pin("1.0.0");
  EXPECT_EQ(load(), "1.0.0");
  EXPECT_EQ(load("family@1.1"), "1.1.0") << "what a job names counts more";
  const json listing = make_listing(scan(), PluginRoot::facts(), false)["plugins"];
  EXPECT_FALSE(listing[0].contains("pinned")) << listing[0];
  EXPECT_EQ(listing[1]["pinned"], "1.0.0");
  std::filesystem::remove(root_.path() / "pins.json");
  EXPECT_EQ(load(), "1.1.0");
}

TEST_F(Versions, RefuseAPinThatNothingMeets) {
  install("1.0.0");
  pin("1.1");
  EXPECT_ERROR(load(), WEFT_FAILED_PRECONDITION, "pinned to version 1.1 in " + root_.path().string(),
               "alpha 1.0.0", "`weft plugins unpin alpha`");
  root_.install("alpha_1.1.0", "alpha", "1.1.0",
                [](json& manifest) { manifest["libraries"][0]["provides"] = {"other"}; });
  EXPECT_ERROR(load(), WEFT_NOT_FOUND, "pinned to version 1.1");  // a model of this version has no policy
}

TEST_F(Versions, RefuseADamagedFileOfPins) {
  install("1.0.0");
  for (const char* wrong : {"", "[]", "{\"pins\": {\"alpha\": 1}}", "{\"pins\": {\"alpha\": \"x\"}}",
                            "{\"pins\": {\"alpha\": \"\"}}", "{\"pin\": {}}", "{\"pins\": []}"}) {
    pin_file(wrong);
    EXPECT_ERROR(load(), WEFT_FAILED_PRECONDITION, (root_.path() / "pins.json").string());
  }
  const json notes = make_listing(scan(), PluginRoot::facts(), false)["notes"];
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].get<std::string>().find("pins.json"), std::string::npos) << notes;
  pin("1.0");
  chmod((root_.path() / "pins.json").c_str(), 0666);
  EXPECT_ERROR(load(), WEFT_FAILED_PRECONDITION, "pins.json", "chmod o-w");
}

TEST_F(Versions, CountPinsOnlyWhereTheUsersFolderIsSearched) {
  install("1.0.0");
  install("1.1.0");
  pin("1.0");
  EXPECT_EQ(root_.load().version, "1.1.0");
}

// What a job says of the newest version must be what `weft plugins doctor` says of it.
void expect_the_same(const Catalogue& catalogue, const std::string& problem_of_job) {
  const json listing = make_listing(catalogue, PluginRoot::facts(), true);
  const std::string problem = listing["plugins"][0]["problem"];
  EXPECT_NE(problem_of_job.find(problem), std::string::npos) << problem_of_job << "\n" << problem;
}

TEST_F(Versions, NameTheWayBackFromADamagedOne) {
  install("1.0.0");
  const auto newest = install("1.1.0");
  const auto damages = {std::pair("plugin.so", "TRUST"), std::pair("plugin.json", "MANIFEST")};
  for (const auto& [file, stage] : damages) {
    std::ofstream(newest / file, std::ios::app) << "x";
    try {
      load();
      FAIL() << "went back by itself";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.status(), WEFT_DATA_LOSS);
      for (const char* part : {"1.1.0", stage, "`weft plugins pin alpha@1.0.0`"})
        EXPECT_NE(text.find(part), std::string::npos) << text;
      expect_the_same(scan(), text);
    }
    EXPECT_ERROR(load("family@1"), WEFT_DATA_LOSS, "1.1.0", "name version 1.0.0");
  }
  pin("1.0.0");
  EXPECT_EQ(load(), "1.0.0");
}

TEST_F(Versions, NameTheWayBackFromOneWhoseStartFails) {
  root_.install("failing_init_1.2.0", "alpha", "1.2.0");
  EXPECT_ERROR(load(), WEFT_RESOURCE_EXHAUSTED, "alpha\" 1.2.0", "INIT");
  install("1.0.0");
  EXPECT_ERROR(load(), WEFT_RESOURCE_EXHAUSTED, "alpha\" 1.2.0", "INIT", "`weft plugins pin alpha@1.0.0`");
  EXPECT_ERROR(root_.load(), WEFT_RESOURCE_EXHAUSTED, "alpha\" 1.2.0", "name version 1.0.0");
  pin("1.0.0");
  EXPECT_EQ(load(), "1.0.0");
}

TEST_F(Versions, NameNoWayBackFromOneThatNoJobChooses) {
  install("1.0.0");
  std::ofstream(install("1.1.0") / "plugin.so", std::ios::app) << "x";
  const auto has_advice = [this] {
    const std::string listing = make_listing(scan(), PluginRoot::facts(), true).dump();
    return listing.find("is installed, too") != std::string::npos;
  };
  EXPECT_TRUE(has_advice());
  root_.install("failing_init_1.2.0", "alpha", "1.2.0");
  EXPECT_FALSE(has_advice());
}

TEST_F(Versions, DoNotNameAnOlderOneThatIsDamaged) {
  std::ofstream(install("1.0.0") / "plugin.so", std::ios::app) << "x";
  std::ofstream(install("1.1.0") / "plugin.so", std::ios::app) << "x";
  try {
    load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("plugins pin"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft::host
