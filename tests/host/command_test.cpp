// `weft plugins` as its users meet it.
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "base/text.hpp"
#include "host/plugin_root.hpp"
#include "support/sanitized.hpp"

namespace weft {
namespace {

using nlohmann::json;
using testing::PluginRoot;
using testing::ScopedEnvironment;

constexpr double kSlow = test::kSanitized ? 10 : 1;

struct Result {
  int code = -1;
  std::string output;
};

Result run(const std::string& arguments, const std::string& before = "") {
  Result result;
  FILE* pipe = popen((before + WEFT_COMMAND + " " + arguments).c_str(), "r");
  char buffer[4096];
  for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) result.output.append(buffer, size);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return result;
}

void expect_parts(const Result& result, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.code, code) << result.output;
  for (const std::string& part : parts)
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
}

class PluginsCommand : public ::testing::Test {
 protected:
  PluginRoot root_;
  ScopedEnvironment path_{"WEFT_PLUGIN_PATH", root_.path().c_str()}, add_{"WEFT_PLUGIN_ADD_PATH", nullptr},
      select_{"WEFT_PLUGIN_SELECT", nullptr}, disable_{"WEFT_PLUGIN_DISABLE", nullptr},
      safe_{"WEFT_PLUGIN_SAFE", nullptr};
};

TEST_F(PluginsCommand, RefusesWrongUseWithCodeTwo) {
  expect_parts(run("plugins lst 2>&1"), 2,
               {"weft: plugins: ", "\"lst\"; did you mean \"list\"?\n      Verbs: list"});
  expect_parts(run("plugins list --jsn 2>&1"), 2,
               {"weft: plugins list: ", "--jsn; did you mean \"--json\"?"});
  expect_parts(run("plugns 2>&1"), 2, {"weft: ", "\"plugns\"; did you mean \"plugins\"?"});
  expect_parts(run("2>&1"), 2, {"weft: a verb"});
  expect_parts(run("plugins show 2>&1"), 2, {"weft: plugins show: NAME is required"});
}

TEST_F(PluginsCommand, FailsWithCodeOne) {
  root_.install("alpha_1.0.0", "alpha", "1.0.0");
  expect_parts(run("plugins show alhpa 2>&1"), 1,
               {"weft: plugins show: ", "\"alhpa\"; did you mean \"alpha\"?\n"});
  expect_parts(run("plugins digest /nowhere 2>&1"), 1, {"weft: plugins digest: ", "/nowhere"});
  expect_parts(run("plugins validate /nowhere 2>&1"), 1, {"weft: plugins validate: /nowhere"});
  const ScopedEnvironment relative("WEFT_PLUGIN_PATH", "plugins");
  expect_parts(run("plugins list 2>&1"), 1, {"weft: plugins list: ", "WEFT_PLUGIN_PATH", "absolute"});
}

TEST_F(PluginsCommand, EveryVerbHasHelpWithAnExample) {
  for (const char* verb :
       {"", "list", "show", "doctor", "validate", "new", "digest", "install", "remove", "pin", "unpin"}) {
    expect_parts(run(std::string("plugins ") + verb + " --help"), 0, {"Example: weft plugins"});
  }
}

TEST_F(PluginsCommand, ListsWhatThereIs) {
  expect_parts(run("plugins list"), 0, {"No plugin", root_.path().string()});
  root_.install("alpha_1.0.0", "alpha", "1.0.0", [](json& manifest) { manifest["default"] = true; });
  root_.install("beta_1.0.0", "beta", "1.0.0", [](json& manifest) { manifest.erase("abi"); });
  expect_parts(run("plugins list"), 0,
               {"alpha *", "1.0.0", "shard_policy", "family", "Passed over", "beta 1.0.0: MANIFEST"});
  const json listing = json::parse(run("plugins list --json").output);
  EXPECT_EQ(listing["plugins"][0]["id"], "alpha");
  EXPECT_TRUE(listing["plugins"][1].contains("problem"));
}

TEST_F(PluginsCommand, ShowsOptions) {
  root_.install("alpha_1.0.0", "alpha", "1.0.0", [](json& manifest) {
    manifest["groups"] = {"clipping"};
    manifest["options"] = {
        {{"name", "depth"}, {"type", "int"}, {"default", 3}, {"since", "1.2.0"}, {"doc", "how deep"}}};
  });
  for (const char* name : {"alpha", "family"}) {
    expect_parts(
        run(std::string("plugins show ") + name), 0,
        {"alpha 1.0.0", "depth      int    3        strategy  1.2.0  how deep",
         "norm_type  float  2        host      0.1.0  the p of the p-norm that max_norm limits", "tier c"});
  }
  const json shown = json::parse(run("plugins show alpha --json").output)[0];
  EXPECT_FALSE(shown.contains("groups"));
  ASSERT_EQ(shown["options"].size(), 3u);
  EXPECT_EQ(shown["options"][0]["name"], "max_norm");
  EXPECT_EQ(shown["options"][0]["by"], "host");
  EXPECT_EQ(shown["options"][2]["name"], "depth");
}

TEST_F(PluginsCommand, DoctorTellsWhatIsWrongInside) {
  const auto folder = root_.install("alpha_1.0.0", "alpha", "1.0.0");
  root_.install("beta_1.0.0", "beta", "1.0.0");
  chmod((folder / "plugin.so").c_str(), 0777);
  expect_parts(run("plugins doctor"), 0,
               {"damaged: TRUST", "be loaded", "1 of 2 libraries", "WEFT_PLUGIN_PATH"});
  const ScopedEnvironment disable("WEFT_PLUGIN_DISABLE", "beta");
  expect_parts(run("plugins doctor"), 0, {"WEFT_PLUGIN_DISABLE=beta", "0 of 2"});
}

TEST_F(PluginsCommand, ValidatesAndDigests) {
  const auto good = root_.install("alpha_1.0.0", "alpha", "1.0.0");
  const std::string interface = "plugins validate --interface-only ";
  const Result result = run(interface + good.string());
  expect_parts(result, 0, {"passed REGISTER", "passed refuses another major"});
  EXPECT_TRUE(result.output.ends_with("\n27 passed, 0 failed\n")) << result.output;
  const json report = json::parse(run(interface + good.string() + " --json").output);
  EXPECT_EQ(report.at("num_passed"), 27);
  EXPECT_EQ(report.at("libraries").at(0).at("checks").size(), 27u);
  const auto bad = root_.install("no_entry", "alpha", "1.0.1", [](json&) {});
  expect_parts(run("plugins validate " + bad.string() + " 2>&1"), 1, {"FAILED NOTE", "the rules"});
  const std::string file = (good / "plugin.so").string();
  EXPECT_EQ(run("plugins digest " + file).output, sha256_file(file) + "\n");
}

// What ends the process that loads a plugin, or holds it up, is a failed check that names the plugin.
TEST_F(PluginsCommand, ValidatesWhatDoesNotReturn) {
  const auto expect_failure = [&](const char* library, const char* version, const std::string& flags,
                                  const std::vector<std::string>& parts) {
    const auto folder = root_.install(library, "alpha", version);
    const Result result = run("plugins validate " + folder.string() + flags + " 2>/dev/null");
    expect_parts(result, 1, parts);
    EXPECT_TRUE(result.output.ends_with("\n0 passed, 1 failed\n")) << result.output;
    expect_parts(run("plugins validate " + folder.string() + flags + " 2>&1 >/dev/null"), 1,
                 {std::string("weft: plugins validate: alpha ") + version});
  };
  expect_failure("crashing", "1.0.2", "", {"FAILED", "loaded it (SIG", "is damaged"});
  expect_failure("exiting", "1.0.3", "", {"FAILED", "exit()"});
  expect_failure("leaving", "1.0.4", "", {"FAILED", "exit()"});
  expect_failure("looping", "1.0.5", " --timeout 1", {"FAILED", "--timeout", "1 s"});
  expect_parts(run("plugins validate --timeout 0 x 2>&1"), 2, {"--timeout"});
}

// Least processor time of some runs, in milliseconds.
double processor_ms(const std::string& words) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    rusage before = {}, after = {};
    getrusage(RUSAGE_CHILDREN, &before);
    run(words);
    getrusage(RUSAGE_CHILDREN, &after);
    const auto ms = [](const rusage& use) {
      return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
             (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
    };
    best = std::min(best, ms(after) - ms(before));
  }
  return best;
}

// A list reads manifests and no library: no libtorch (what the dynamic loader says that it opens is the
// proof), and nothing that takes long with many plugins.
TEST_F(PluginsCommand, ListIsQuickAndMapsNoLibtorch) {
  const auto folder = root_.install("alpha_1.0.0", "alpha", "1.0.0");
  std::filesystem::resize_file(folder / "plugin.so", 64 << 20);  // who read it all would take long
  json manifest = json::parse(std::ifstream(folder / "plugin.json"));
  for (int i = 0; i < 200; ++i) {
    manifest["id"] = fmt::format("alpha{}", i);
    const auto other = root_.path() / manifest["id"] / "1.0.0";
    std::filesystem::create_directories(other);
    std::ofstream(other / "plugin.json") << manifest.dump(2);
    std::filesystem::create_hard_link(folder / "plugin.so", other / "plugin.so");
  }
  const std::string trace =
      run("plugins list 2>&1 >/dev/null; LD_DEBUG=files " WEFT_COMMAND " plugins list 2>&1").output;
  EXPECT_NE(trace.find("libweft.so"), std::string::npos);
  EXPECT_EQ(trace.find("libtorch"), std::string::npos);
  EXPECT_EQ(trace.find("libweft_engine"), std::string::npos);
  EXPECT_NE(run("plugins list").output.find("alpha199"), std::string::npos);
  EXPECT_LT(processor_ms("plugins list"), 100 * kSlow) << processor_ms("--version");
}

// The folder of the user, and calls of the command that are killed.
class UsersPlugins : public PluginsCommand {
 protected:
  // Runs the command again and again in the same state, killed before its first call that changes files,
  // before its second, and so on, until it ends by itself. Returns how often `look` said what after a kill.
  std::map<std::string, int> kill_everywhere(const std::string& words,
                                             const std::function<std::string()>& look) {
    std::map<std::string, int> seen;
    const auto copied = std::filesystem::copy_options::recursive;
    const std::filesystem::path before = home_.path() / "before";
    std::filesystem::create_directories(own_);
    std::filesystem::copy(own_, before, copied);
    for (int call = 1; !HasFailure(); ++call) {
      const std::string killed =
          fmt::format("KILL_AT={} LD_PRELOAD={}/kill_at_call.so ", call, TEST_LIBRARIES);
      const Result result = run(words + " 2>&1", killed);
      if (result.code == 0) break;
      EXPECT_GE(result.code, 128) << result.output;
      ++seen[look()];
      std::filesystem::remove_all(own_);
      std::filesystem::copy(before, own_, copied);
    }
    std::filesystem::remove_all(before);
    return seen;
  }
  // Returns the versions of alpha that can be loaded. Anything else that is listed is a failure.
  std::string versions() {
    std::string found;
    const json listing = json::parse(run("plugins doctor --json").output);
    for (const json& plugin : listing["plugins"]) {
      if (plugin["id"] != "alpha") continue;
      EXPECT_FALSE(plugin.contains("problem")) << plugin;
      found += plugin["version"].get<std::string>() + " ";
    }
    return found;
  }
  // Returns the names in the user's folder.
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(own_)) names.insert(entry.path().filename());
    return names;
  }

  testing::TemporaryFolder home_;
  const std::filesystem::path own_ = home_.path() / "weft/plugins";
  ScopedEnvironment data_{"XDG_DATA_HOME", home_.path().c_str()}, no_path_{"WEFT_PLUGIN_PATH", nullptr},
      only_{"WEFT_PLUGIN_SELECT", "alpha"};
};

TEST_F(UsersPlugins, RefuseWhatWouldNotBeSearched) {
  const auto folder = root_.install("alpha_1.0.0", "alpha", "1.0.0");
  const ScopedEnvironment path("WEFT_PLUGIN_PATH", root_.path().c_str());
  expect_parts(run("plugins install " + folder.string() + " 2>&1"), 1, {"WEFT_PLUGIN_PATH="});
  expect_parts(run("plugins pin alpha@1 2>&1"), 1, {"WEFT_PLUGIN_PATH="});
  EXPECT_FALSE(std::filesystem::exists(own_));
}

TEST_F(UsersPlugins, AreInstalledPinnedAndRemoved) {
  for (const char* version : {"1.0.0", "1.1.0"}) {
    const auto folder = root_.install(std::string("alpha_") + version, "alpha", version);
    expect_parts(run("plugins install " + folder.string()), 0, {"alpha", version, own_.string()});
  }
  expect_parts(run("plugins pin family@1.0"), 0, {"alpha", "1.0", "1.0.0"});
  expect_parts(run("plugins list"), 0, {"1.0.0 (pinned)", "1.1.0   "});
  expect_parts(run("plugins remove alpha@1.1 --json"), 0, {"\"version\": \"1.1.0\""});
  expect_parts(run("plugins remove alpha 2>&1"), 1, {"weft plugins unpin alpha"});
  expect_parts(run("plugins unpin alpha"), 0, {"alpha"});
  expect_parts(run("plugins remove alpha"), 0, {"alpha 1.0.0"});
  EXPECT_EQ(versions(), "");
}

TEST_F(UsersPlugins, AreWholeOrNotThereWhenAnInstallationIsKilled) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer must be the first library of a process";
  const std::string one = root_.install("alpha_1.0.0", "alpha", "1.0.0").string();
  const std::string two = root_.install("alpha_1.1.0", "alpha", "1.1.0").string();
  const auto look = [this] { return versions(); };
  std::map<std::string, int> seen = kill_everywhere("plugins install " + one, look);
  EXPECT_GT(seen[""], 10);
  EXPECT_GT(seen["1.0.0 "], 1);
  EXPECT_EQ(seen.size(), 2u);
  seen = kill_everywhere("plugins install " + two, look);
  EXPECT_GT(seen["1.0.0 "], 10) << "the older version is as it was";
  EXPECT_GT(seen["1.1.0 1.0.0 "], 1);
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(UsersPlugins, AreCleanedOfWhatKilledProcessesLeft) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer must be the first library of a process";
  const std::string install = "plugins install " + root_.install("alpha_1.0.0", "alpha", "1.0.0").string();
  const Result killed = run(install + " 2>&1", "KILL_AT=12 LD_PRELOAD=" TEST_LIBRARIES "/kill_at_call.so ");
  EXPECT_GE(killed.code, 128) << killed.output;
  EXPECT_EQ(names().size(), 2u) << "the lock and an unfinished folder";
  expect_parts(run(install), 0, {});
  EXPECT_EQ(names(), std::set<std::string>{"alpha"});
}

TEST_F(UsersPlugins, AreWholeOrNotThereWhenARemovalIsKilled) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer must be the first library of a process";
  run("plugins install " + root_.install("alpha_1.0.0", "alpha", "1.0.0").string());
  std::map<std::string, int> seen = kill_everywhere("plugins remove alpha", [this] { return versions(); });
  EXPECT_GT(seen["1.0.0 "], 1);
  EXPECT_GT(seen[""], 3);
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(UsersPlugins, KeepTheirPinsWhenAPinIsKilled) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer must be the first library of a process";
  for (const char* version : {"1.0.0", "1.1.0"})
    run("plugins install " + root_.install(std::string("alpha_") + version, "alpha", version).string());
  expect_parts(run("plugins pin alpha@1.0"), 0, {});
  std::map<std::string, int> seen = kill_everywhere("plugins pin alpha@1.1", [] {
    const json listing = json::parse(run("plugins list --json").output);
    for (const json& plugin : listing["plugins"])
      if (plugin.contains("pinned")) return plugin["pinned"].get<std::string>();
    return std::string("no pin");
  });
  EXPECT_GT(seen["1.0"], 1);
  EXPECT_GT(seen["1.1"], 0);
  EXPECT_EQ(seen.size(), 2u);
}

}  // namespace
}  // namespace weft
