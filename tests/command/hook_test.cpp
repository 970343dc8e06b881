// `weft train --hook`: the hook of samples/hook_c.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

class HookCommand : public CommandTest {
 protected:
  Output run(const Words& words) const {
    return weft_command_with("WEFT_PLUGIN_ADD_PATH=" WEFT_TEST_HOOKS, train(words));
  }
  Words lines(const std::string& name) const {
    Words lines;
    std::istringstream text(read_bytes(in(name)));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(HookCommand, RefusesHooksAndOptionsThatAreNotThere) {
  const auto refused = [&](const Words& words, const Words& pieces) {
    const Output output = run(Words{"--steps", "2", "--strategy", "none"} + words);
    EXPECT_NE(output.exit_code, 0);
    for (const std::string& piece : pieces) EXPECT_THAT(output.error, HasSubstr(piece));
  };
  refused({"--hook", "time_budgte"}, {"time_budgte", "did you mean \"time_budget\""});
  refused({"--hook-option", "time_budget.seconds=1"}, {"--hook-option", "--hook"});
  refused({"--hook", "time_budget", "--hook-option", "seconds=1"}, {"--hook-option", "time_budget.KEY"});
  refused({"--hook", "time_budget", "--hook-option", "time_budget.second=1"}, {"second", "seconds"});
  refused({"--hook", "time_budget", "--hook-option", "time_budget.seconds=soon"}, {"seconds", "soon"});
  refused({"--hook", "time_budget", "--hook", "time_budget"}, {"time_budget", "twice"});
}

TEST_F(HookCommand, WritesLinesAndEndsAllRanksWhenTheTimeIsUsedUp) {
  const Words hook = {
      "-n", "2", "--hook", "time_budget", "--hook-option", "time_budget.file=" + in("steps.tsv")};
  const Output whole = run(hook + Words{"--steps", "3", "--metrics", in("m"), "--output", in("out")});
  ASSERT_EQ(whole.exit_code, 0) << whole.error;
  const std::vector<nlohmann::json> metrics = read_metrics(in("m"));
  ASSERT_EQ(lines("steps.tsv").size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    long long step = 0;
    double loss = 0;
    ASSERT_EQ(std::sscanf(lines("steps.tsv")[i].c_str(), "%lld\t%lf", &step, &loss), 2);
    EXPECT_EQ(step, static_cast<long long>(i + 1));
    EXPECT_NEAR(loss, metrics[i].at("loss").get<double>(), 1e-5 * loss);
  }
  EXPECT_THAT(read_bytes(in("out/training_state/job.yaml")), HasSubstr("hook: [\"time_budget\"]"));

  // The seconds of the first part count.
  const Output over = run(hook + Words{"--steps", "9", "--resume", in("out"), "--hook-option",
                                       "time_budget.seconds=0.001", "--output", in("over")});
  ASSERT_EQ(over.exit_code, 0) << over.error;
  EXPECT_THAT(over.error, HasSubstr("step 4 of 9"));
  EXPECT_EQ(lines("steps.tsv").size(), 4u);
  EXPECT_TRUE(std::filesystem::exists(in("over/training_state")));
}

// Rank 0 alone opens the file.
TEST_F(HookCommand, EndsAllRanksIfItFailsOnOneAlone) {
  const Output output = run({"-n", "2", "--steps", "3", "--hook", "time_budget", "--hook-option",
                             "time_budget.file=" + in("nowhere/steps.tsv")});
  EXPECT_EQ(output.exit_code, 1);
  for (const char* piece : {"rank 0", "hook time_budget", "nowhere/steps.tsv"})
    EXPECT_THAT(output.error, HasSubstr(piece));
}

TEST_F(HookCommand, ReadsHooksFromAFile) {
  folder_.file("job.yaml", "hook: time_budget\nhook_options: {time_budget.seconds: 0}\n");
  const Output output = run({"--config", in("job.yaml"), "--steps", "5", "--strategy", "none"});
  ASSERT_EQ(output.exit_code, 0) << output.error;
  EXPECT_THAT(output.error, HasSubstr("step 1 of 5"));
}

}  // namespace
}  // namespace weft::test
