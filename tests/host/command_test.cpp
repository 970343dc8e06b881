// `weft plugins` as its users meet it.
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>

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

Result run(const std::string& arguments) {
  Result result;
  FILE* pipe = popen((std::string(WEFT_COMMAND) + " " + arguments).c_str(), "r");
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
  for (const char* verb : {"", "list", "show", "doctor", "validate", "new", "digest"}) {
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
               {"passed over: TRUST", "be loaded", "1 of 2 libraries", "WEFT_PLUGIN_PATH"});
  const ScopedEnvironment disable("WEFT_PLUGIN_DISABLE", "beta");
  expect_parts(run("plugins doctor"), 0, {"WEFT_PLUGIN_DISABLE=beta", "0 of 2"});
}

TEST_F(PluginsCommand, ValidatesAndDigests) {
  const auto good = root_.install("alpha_1.0.0", "alpha", "1.0.0");
  expect_parts(run("plugins validate " + good.string()), 0,
               {"passed REGISTER", "passed refuses another major"});
  const auto bad = root_.install("no_entry", "alpha", "1.0.1", [](json&) {});
  expect_parts(run("plugins validate " + bad.string() + " 2>&1"), 1, {"FAILED NOTE", "the rules"});
  const auto crashing = root_.install("crashing", "alpha", "1.0.2", [](json&) {});
  expect_parts(run("plugins validate " + crashing.string() + " 2>&1"), 1,
               {"weft: plugins validate: " + crashing.string(), "loaded it (SIG", "is damaged"});
  const auto exiting = root_.install("exiting", "alpha", "1.0.3", [](json&) {});
  expect_parts(run("plugins validate " + exiting.string() + " 2>&1"), 1, {"a library", "exit()"});
  const std::string file = (good / "plugin.so").string();
  EXPECT_EQ(run("plugins digest " + file).output, sha256_file(file) + "\n");
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

// A list reads manifests and notes: no libtorch (what the dynamic loader says that it opens is the proof), no
// library as a whole, and nothing that takes more than a few milliseconds beyond starting the command.
TEST_F(PluginsCommand, ListIsQuickAndMapsNoLibtorch) {
  for (int i = 0; i < 20; ++i) {
    const auto folder = root_.install("alpha_1.0.0", fmt::format("alpha{}", i), "1.0.0");
    std::filesystem::resize_file(folder / "plugin.so", 64 << 20);  // who read it all would take long
  }
  const std::string trace =
      run("plugins list 2>&1 >/dev/null; LD_DEBUG=files " WEFT_COMMAND " plugins list 2>&1").output;
  EXPECT_NE(trace.find("libweft.so"), std::string::npos);
  EXPECT_EQ(trace.find("libtorch"), std::string::npos);
  EXPECT_EQ(trace.find("libweft_engine"), std::string::npos);
  EXPECT_NE(run("plugins list").output.find("alpha19"), std::string::npos);
  const double list = processor_ms("plugins list"), start = processor_ms("--version");
  EXPECT_LT(list, start + 15 * kSlow) << start;
}

}  // namespace
}  // namespace weft
