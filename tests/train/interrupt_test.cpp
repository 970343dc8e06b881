// Killed ranks and stopped jobs in the middle of `weft train`.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "train/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kSoonMs = 10'000;

class Interrupt : public CommandTest {
 protected:
  // Starts a training that would take long.
  launch::Process start(const Words& more) {
    return start_weft(train(Words{"--steps", "1000000", "--metrics", steps_.path()} + more));
  }
  void await_three_steps() {
    for (int step = 1; step <= 3; ++step) {
      const auto line = steps_.next();
      ASSERT_TRUE(line);
      EXPECT_EQ(line->at("step"), step);
    }
  }
  // Reads the pipe until the end, so that it never blocks the command.
  bool ends_soon(launch::Process& process) {
    for (int waited = 0; waited < kSoonMs; waited += 50) {
      if (process.ended(50)) return true;
      steps_.rest();
    }
    return false;
  }
  // Expects that training can resume from `out`.
  void expect_resumable(const Words& more) {
    const int64_t saved = nlohmann::json::parse(read_bytes(in("out/training_state/state.json"))).at("step");
    EXPECT_GE(saved, 3);
    weft_succeeds(train(
        Words{"--resume", in("out"), "--steps", std::to_string(saved + 1), "--metrics", in("m")} + more));
    const auto lines = read_metrics(in("m"));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].at("step"), saved + 1);
  }

  StepPipe steps_{folder_};
};

TEST_F(Interrupt, ARankKilledInTheMiddleEndsAllAndIsNamed) {
  for (const std::string rank : {"0", "1"}) {
    launch::Process process = start({"-n", "2", "--save", in("out")});
    await_three_steps();
    const std::vector<pid_t> found = children_with(process.id(), "RANK=" + rank);
    ASSERT_EQ(found.size(), 1u);
    kill(found[0], SIGKILL);
    ASSERT_TRUE(ends_soon(process));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + SIGKILL);
    EXPECT_THAT(output.error, HasSubstr("weft: train: rank " + rank + " was killed by signal 9 (SIGKILL)"));
    EXPECT_FALSE(fs::exists(in("out")));
    steps_.rest();
  }
}

TEST_F(Interrupt, CtrlCFinishesTheStepAndSaves) {
  launch::Process process = start({"-n", "2", "--save", in("out")});
  await_three_steps();
  process.signal(SIGINT);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGINT);
  EXPECT_THAT(output.error, HasSubstr("stopped after step"));
  EXPECT_THAT(output.error, HasSubstr("saved " + in("out")));
  EXPECT_THAT(output.error, testing::Not(HasSubstr("weft: train:")));
  expect_resumable({"-n", "2"});
}

TEST_F(Interrupt, SigtermDoesTheSame) {
  for (const Words& ranks : {Words{"--strategy", "none"}, Words{"-n", "2"}}) {
    launch::Process process = start(ranks + Words{"--save", in("out")});
    await_three_steps();
    process.signal(SIGTERM);
    ASSERT_TRUE(ends_soon(process));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + SIGTERM);
    EXPECT_THAT(output.error, testing::Not(HasSubstr("weft: train:")));
    expect_resumable(ranks);
    fs::remove_all(in("out"));
    fs::remove(in("m"));
  }
}

TEST_F(Interrupt, WithoutAFolderNothingIsSaved) {
  launch::Process process = start({"--strategy", "none"});
  await_three_steps();
  process.signal(SIGINT);
  ASSERT_TRUE(ends_soon(process));
  EXPECT_EQ(process.finish().exit_code, 128 + SIGINT);
}

TEST_F(Interrupt, ALossThatIsNoNumberEndsTheJobAndSavesNothing) {
  for (const char* ranks : {"1", "2"})
    EXPECT_TRUE(refuses(
        train({"-n", ranks, "--optimizer", "sgd", "--lr", "1e30", "--steps", "50", "--save", in("out")}), 1,
        {"the loss of step", "is nan", "lower --lr"}));
  EXPECT_FALSE(fs::exists(in("out")));
}

}  // namespace
}  // namespace weft::test
