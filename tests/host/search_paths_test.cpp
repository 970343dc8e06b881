#include "host/search_paths.hpp"

#include "host/expect_error.hpp"
#include "host/temporary.hpp"

namespace weft::host {
namespace {

using testing::ScopedEnvironment;

// Nothing of the environment that the test runs in.
class SearchPathsTest : public ::testing::Test {
 protected:
  static std::vector<std::string> find(const std::vector<std::string>& given = {}, bool safe_mode = false) {
    std::vector<std::string> paths;
    for (const Root& root : find_search_paths(given, safe_mode, "/installed").roots)
      paths.push_back(root.path);
    return paths;
  }
  using Paths = std::vector<std::string>;

  ScopedEnvironment path_{"WEFT_PLUGIN_PATH", nullptr}, add_{"WEFT_PLUGIN_ADD_PATH", nullptr},
      select_{"WEFT_PLUGIN_SELECT", nullptr}, disable_{"WEFT_PLUGIN_DISABLE", nullptr},
      safe_{"WEFT_PLUGIN_SAFE", nullptr}, data_{"XDG_DATA_HOME", nullptr}, home_{"HOME", "/home/ada"};
};

TEST_F(SearchPathsTest, RefuseRelativePathsInVariables) {
  const ScopedEnvironment path("WEFT_PLUGIN_PATH", "/a:plugins");
  EXPECT_ERROR(find(), WEFT_INVALID_ARGUMENT, "WEFT_PLUGIN_PATH", "\"plugins\"", "absolute");
}

TEST_F(SearchPathsTest, RefuseGivenFoldersInSafeMode) {
  EXPECT_ERROR(find({"/a"}, true), WEFT_INVALID_ARGUMENT, "safe mode", "/a");
  const ScopedEnvironment safe("WEFT_PLUGIN_SAFE", "maybe");
  EXPECT_ERROR(find(), WEFT_INVALID_ARGUMENT, "WEFT_PLUGIN_SAFE", "maybe");
}

TEST_F(SearchPathsTest, AreTheUsersAndTheInstalledFolder) {
  EXPECT_EQ(find(), (Paths{"/home/ada/.local/share/weft/plugins", "/installed"}));
  const ScopedEnvironment data("XDG_DATA_HOME", "/data");
  EXPECT_EQ(find(), (Paths{"/data/weft/plugins", "/installed"}));
}

TEST_F(SearchPathsTest, PathReplacesAndAddPathPrepends) {
  const ScopedEnvironment add("WEFT_PLUGIN_ADD_PATH", "/add1:/add2");
  EXPECT_EQ(find({"/given"}),
            (Paths{"/given", "/add1", "/add2", "/home/ada/.local/share/weft/plugins", "/installed"}));
  const ScopedEnvironment path("WEFT_PLUGIN_PATH", "/only");
  EXPECT_EQ(find({"/given"}), (Paths{"/given", "/add1", "/add2", "/only"}));
}

TEST_F(SearchPathsTest, SafeModeLeavesTheInstalledFolderAlone) {
  const ScopedEnvironment add("WEFT_PLUGIN_ADD_PATH", "/add");
  EXPECT_EQ(find({}, true), Paths{"/installed"});
  const ScopedEnvironment safe("WEFT_PLUGIN_SAFE", "1");
  EXPECT_EQ(find(), Paths{"/installed"});
}

TEST_F(SearchPathsTest, FiltersAreGlobsForIds) {
  const ScopedEnvironment select("WEFT_PLUGIN_SELECT", "torch_*:gpt2");
  const ScopedEnvironment disable("WEFT_PLUGIN_DISABLE", "torch_fsdp");
  const SearchPaths paths = find_search_paths({}, false, "/installed");
  EXPECT_FALSE(paths.left_out("torch_ddp"));
  EXPECT_FALSE(paths.left_out("gpt2"));
  EXPECT_NE(paths.left_out("gemini")->find("WEFT_PLUGIN_SELECT=torch_*:gpt2"), std::string::npos);
  EXPECT_NE(paths.left_out("torch_fsdp")->find("WEFT_PLUGIN_DISABLE=torch_fsdp"), std::string::npos);
}

}  // namespace
}  // namespace weft::host
