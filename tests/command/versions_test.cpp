// Two versions of a strategy, a model family, its policy and a checkpoint format side by side: chosen, pinned
// and rolled back, by programs that were built before both.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "command/command.hpp"
#include "command/newer_plugin.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Jobs of a user who has a folder of plugins.
class PluginVersions : public CommandTest {
 protected:
  PluginVersions() { setenv("XDG_DATA_HOME", in("home").c_str(), 1); }
  ~PluginVersions() override { unsetenv("XDG_DATA_HOME"); }

  void install_newer(const std::string& id) const {
    const fs::path newer = make_newer(fs::path(WEFT_BUILT_PLUGINS) / id / kOld, in("newer-" + id));
    expect_success({"plugins", "install", newer.string()});
  }
  Words job(const Words& more = {}) const {
    return train(Words{"--steps", steps_, "--output", in("out")} + more);
  }
  // Trains and saves. Returns the version that the saved folder names.
  std::string trained_with(const std::string& kind, const std::string& id, const Words& more = {}) const {
    fs::remove_all(in("out"));
    const Output output = expect_success(job(more));
    const std::string version = saved_version(kind, id);
    EXPECT_THAT(output.error, HasSubstr(id + " " + version)) << "the line that names the model";
    return version;
  }
  std::string saved_version(const std::string& kind, const std::string& id) const {
    const json state = json::parse(text_of(in("out/training_state/state.json")));
    for (const json& plugin : state["plugins"])
      if (plugin["kind"] == kind && plugin["id"] == id) return plugin["version"];
    return "none";
  }
  // Installs a newer version, goes back by a pin, and forward again.
  void go_to_and_fro(const std::string& kind, const std::string& id, const Words& more = {}) const {
    EXPECT_EQ(trained_with(kind, id, more), kOld);
    install_newer(id);
    EXPECT_EQ(trained_with(kind, id, more), kNew);
    expect_success({"plugins", "pin", id + "@0.1"});
    EXPECT_EQ(trained_with(kind, id, more), kOld);
    expect_success({"plugins", "unpin", id});
    EXPECT_EQ(trained_with(kind, id, more), kNew);
  }

  std::string steps_ = "1";
};

TEST_F(PluginVersions, FailWhereTheyAreNotThere) {
  EXPECT_TRUE(refuses(job({"--strategy", "torch_ddp@0.2"}), 1, {"torch_ddp", "version 0.2", kOld}));
  EXPECT_TRUE(refuses(job({"--strategy", "torch_ddp@"}), 1, {"\"torch_ddp@\""}));
  EXPECT_TRUE(refuses(job({"--architecture", "GPT2LMHeadModel@x"}), 1, {"GPT2LMHeadModel", "\"x\""}));
  EXPECT_TRUE(refuses(job({"--strategy", "none@1"}), 1, {"none"}));
}

TEST_F(PluginVersions, AreChosenPinnedAndRolledBackForAStrategy) {
  go_to_and_fro("strategy", "torch_ddp");
  EXPECT_EQ(trained_with("strategy", "torch_ddp", {"--strategy", "torch_ddp@0.1"}), kOld);
  EXPECT_THAT(text_of(in("out/training_state/job.yaml")), HasSubstr("strategy: \"torch_ddp@0.1\"\n"));
  EXPECT_EQ(trained_with("strategy", "torch_ddp", {"--strategy", "@=0.1.0"}), kOld);
  expect_success({"plugins", "pin", "torch_ddp@0.1"});
  EXPECT_EQ(trained_with("strategy", "torch_ddp", {"--strategy", "torch_ddp@0"}), kNew);
}

TEST_F(PluginVersions, AreChosenPinnedAndRolledBackForAFamily) {
  go_to_and_fro("model", "gpt2");
  EXPECT_EQ(trained_with("model", "gpt2", {"--architecture", "@0.1"}), kOld);
  EXPECT_EQ(saved_version("shard_policy", "gpt2"), kOld) << "model and policy are of one version";
}

TEST_F(PluginVersions, AreChosenPinnedAndRolledBackForAPolicy) {
  const Words hybrid = {"--strategy", "hybrid_parallel"};
  go_to_and_fro("shard_policy", "gpt2", hybrid);
  EXPECT_EQ(trained_with("shard_policy", "gpt2", hybrid + Words{"-o", "custom_policy=gpt2@0.1"}), kOld);
  EXPECT_EQ(saved_version("model", "gpt2"), kNew);
}

TEST_F(PluginVersions, ArePinnedAndRolledBackForAFormat) {
  go_to_and_fro("checkpoint_io", "hugging_face");
}

TEST_F(PluginVersions, StandInTheFirstLineOfMetrics) {
  install_newer("torch_ddp");
  steps_ = "2";
  trained_with("strategy", "torch_ddp", {"--metrics", in("metrics")});
  std::vector<json> lines = read_metrics(in("metrics"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["plugins"]["torch_ddp"], kNew);
  EXPECT_EQ(lines[0]["plugins"]["gpt2"], kOld);
  EXPECT_FALSE(lines[1].contains("plugins"));
  fs::rename(in("out"), in("before"));
  steps_ = "3";
  trained_with("strategy", "torch_ddp",
               {"--metrics", in("metrics"), "--resume", in("before"), "--strategy", "@0.1"});
  lines = read_metrics(in("metrics"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2]["plugins"]["torch_ddp"], kOld);
}

TEST_F(PluginVersions, AreThoseThatAProgramAskedItsRuntimeFor) {
  for (const char* id : {"torch_ddp", "gpt2"}) install_newer(id);
  const auto run = [this](const Words& words) {
    fs::remove_all(in("out"));
    const Output output =
        launch::Process(Words{BOUND_VERSION, config_, data_, in("out")} + words, {}).finish();
    EXPECT_EQ(output.exit_code, 0) << output.error;
  };
  run({"strategy", "torch_ddp", "0.1.0"});
  EXPECT_EQ(saved_version("strategy", "torch_ddp"), kOld);
  EXPECT_EQ(saved_version("model", "gpt2"), kNew);
  run({"model", "GPT2LMHeadModel", "0.1"});
  EXPECT_EQ(saved_version("strategy", "torch_ddp"), kNew);
  EXPECT_EQ(saved_version("model", "gpt2"), kOld);
  EXPECT_EQ(saved_version("shard_policy", "gpt2"), kOld);
}

// Returns the command in a text of the form "`weft WORDS`" that begins with these words.
Words command_in(const std::string& text, const std::string& beginning) {
  const size_t begin = text.find("`weft " + beginning);
  if (begin == std::string::npos) return {};
  std::istringstream words(text.substr(begin + 6, text.find('`', begin + 1) - begin - 6));
  return {std::istream_iterator<std::string>(words), {}};
}

TEST_F(PluginVersions, EndTheJobWithTheWayBackIfTheNewestIsDamaged) {
  install_newer("torch_ddp");
  const fs::path library = fs::path(in("home")) / "weft/plugins/torch_ddp" / kNew / "torch_ddp_strategy.so";
  std::ofstream(library, std::ios::app) << "x";
  const Output failed = weft_command(job());
  EXPECT_EQ(failed.exit_code, 1) << failed.error;
  EXPECT_THAT(failed.error, HasSubstr(std::string("torch_ddp\" ") + kNew));
  const Words back = command_in(failed.error, "plugins pin");
  ASSERT_EQ(back, (Words{"plugins", "pin", "torch_ddp@0.1.0"})) << failed.error;
  for (const Words& verb : {Words{"plugins", "doctor"}, Words{"check"}})
    EXPECT_EQ(command_in(weft_command(verb).out, "plugins pin"), back) << verb[0];
  expect_success(back);
  EXPECT_EQ(trained_with("strategy", "torch_ddp"), kOld);
  EXPECT_THAT(weft_command({"plugins", "doctor"}).out, Not(HasSubstr("plugins pin")));
}

TEST_F(PluginVersions, MustBeTheSameOnAllRanks) {
  install_newer("torch_ddp");
  install_newer("hugging_face");
  fs::copy(in("home"), in("home1"), fs::copy_options::recursive);
  const std::string job = fmt::format(
      "XDG_DATA_HOME={}$([ $RANK = 0 ] || echo 1) exec {} train --model {} --data {} "
      "--steps 1 --output {}",
      in("home"), WEFT_PROGRAM, config_, data_, in("out"));
  const Words two_ranks = {"run", "-n", "2", "sh", "-c", job};
  EXPECT_EQ(weft_command(two_ranks).exit_code, 0);
  const std::vector<std::string> ranks = {"rank 0 has", "rank 1 has", kOld, kNew};
  for (const char* id : {"torch_ddp", "hugging_face"}) {
    expect_success({"plugins", "pin", std::string(id) + "@0.1"});
    EXPECT_TRUE(refuses(two_ranks, 1, ranks + std::vector<std::string>{id}));
    expect_success({"plugins", "unpin", id});
  }
}

}  // namespace
}  // namespace weft::test
