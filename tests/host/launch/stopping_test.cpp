// How jobs stop: ranks that do not take a signal, those that finish, and what nobody may leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "base/text.hpp"
#include "host/launch/process.hpp"

namespace weft::launch {
namespace {

using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

const ProcessOptions kImpatient = {.environment = {{"TEST_ANSWER_MS", "300"}}, .input = "", .error_fd = -1};

Process start(const std::vector<std::string>& steps, const ProcessOptions& options = kImpatient) {
  return Process(launcher(static_cast<int>(steps.size()), steps), options);
}

std::string shell_rank(const std::string& steps) {
  return fmt::format("{} rank {}; exit $?", RANK_PROGRAM, steps);
}

TEST(Stopping, KillsARankThatIsStopped) {
  Process process = start({"0:on=15:0,ready,wait", "1:doing=in step 7,stop"});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGTERM);
  ASSERT_TRUE(process.ended(5000));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 1 (pid "));
  EXPECT_THAT(output.error,
              HasSubstr("did not take SIGTERM within 0.3 s and was killed: it is stopped (SIGSTOP)"));
  EXPECT_THAT(output.error, HasSubstr("; it was in step 7, for "));
}

TEST(Stopping, KillsARankThatIgnoresTheSignal) {
  for (const int number : {SIGTERM, SIGINT}) {
    Process process = start({"0:on=15:0,on=2:0,ready,wait", "1:ignore=15,ignore=2,ready,wait"});
    ASSERT_TRUE(process.wait_for_ready(2));
    process.signal(number);
    ASSERT_TRUE(process.ended(5000));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + number);
    EXPECT_THAT(output.error, HasSubstr(number == SIGTERM ? "it ignores SIGTERM" : "it ignores SIGINT"));
    EXPECT_THAT(output.error, Not(HasSubstr("rank 0")));
  }
}

TEST(Stopping, WaitsTenSecondsForAnAnswer) {
  Process process = start({"ignore=15,ready,wait"}, {});
  ASSERT_TRUE(process.wait_for_ready(1));
  const Clock::time_point begin = Clock::now();
  process.signal(SIGTERM);
  EXPECT_FALSE(process.ended(9000));
  EXPECT_TRUE(process.ended(4000));
  EXPECT_GE(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(process.finish().error, HasSubstr("within 10 s and was killed"));
}

TEST(Stopping, NamesAGraceThatIsShorterThanTheTimeToAnswer) {
  Process process = start({"ignore=15,ready,wait"}, {.environment = {{"TEST_GRACE_MS", "400"}}});
  ASSERT_TRUE(process.wait_for_ready(1));
  process.signal(SIGTERM);
  ASSERT_TRUE(process.ended(5000));
  const Output output = process.finish();
  EXPECT_THAT(output.error,
              HasSubstr("did not take SIGTERM within 0.4 s and was killed: it ignores SIGTERM\n"));
  EXPECT_THAT(output.error, Not(HasSubstr("had not ended")));  // said once
}

// As under nohup, and for SIGINT in the background of a script.
TEST(Stopping, IgnoresTheSignalsThatTheLauncherIgnores) {
  for (const int number : {SIGHUP, SIGINT}) {
    std::vector<std::string> command = {"sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"};
    const std::vector<std::string> own = launcher(2, {"on=15:0,ready,wait"});
    command.insert(command.end(), own.begin(), own.end());
    Process process(command, kImpatient);
    ASSERT_TRUE(process.wait_for_ready(2));
    process.signal(number);
    EXPECT_FALSE(process.ended(1000));
    process.signal(SIGTERM);
    expect_quiet_end(process, 128 + SIGTERM);
  }
}

// Rank 2 dies of the launcher's SIGTERM, which is also the signal that comes then.
TEST(Stopping, AfterAFailureLeavesItsCauseAndExitCode) {
  Process process = start({"0:tell=15,give=1,wait", "1:take,report=disk is full,exit=3", "2:wait"});
  ASSERT_TRUE(process.wait_for_ready(1));  // rank 0 got SIGTERM
  process.signal(SIGTERM);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 1 (pid "));
  EXPECT_THAT(output.error, HasSubstr("failed: disk is full"));
}

// As when `weft train` cannot save after SIGTERM. Rank 1 dies of the signal.
TEST(Stopping, TellsAFailureThatFollowsTheSignal) {
  Process process = start({"0:fails=15,ready,wait", "1:ready,wait"});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGTERM);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 0 (pid "));
  EXPECT_THAT(output.error, HasSubstr("failed: disk is full"));
}

// The launcher waits half a second for a better explanation than a lost peer.
TEST(Stopping, WhileAFailureIsJudgedLeavesItsCauseAndExitCode) {
  Process process =
      start({"0:lost=connection closed,tell=10,on=12:6,ready,wait", "1:tell=10,on=12:0,ready,wait"});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGUSR1);  // the launcher looks for reports after it has passed the signal on
  ASSERT_TRUE(process.wait_for_ready(2));
  EXPECT_FALSE(process.ended(50));
  process.signal(SIGTERM);
  process.signal(SIGUSR2);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 6);
  EXPECT_THAT(output.error, HasSubstr("failed: connection closed"));
}

TEST(Stopping, ASignalOfOneRankAfterAFailureLeavesItsCauseAndExitCode) {
  Process process = start({"0:lost=connection closed,give=1,take,exit=6", "1:take,tells=15,kill=15"});
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 6);
  EXPECT_THAT(output.error, HasSubstr("failed: connection closed"));
  EXPECT_THAT(output.error, Not(HasSubstr("all ranks stop with it")));
}

TEST(Stopping, LetsARankFinishThatTookTheSignal) {
  Process process = start({"0:once=15,on=10:0,ready,wait", "1:ignore=15,ready,wait"});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGTERM);
  ASSERT_TRUE(process.wait_for_ready(1));
  EXPECT_FALSE(process.ended(4000));  // rank 1 is gone, and nobody sends a second signal
  process.signal(SIGUSR1);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 1 (pid "));
}

TEST(Stopping, EndsAtTheGrace) {
  Process process = start({"doing=in the save to out,tell=15,ready,wait"},
                          {.environment = {{"TEST_ANSWER_MS", "300"}, {"TEST_GRACE_MS", "700"}}});
  ASSERT_TRUE(process.wait_for_ready(1));
  process.signal(SIGTERM);
  ASSERT_TRUE(process.ended(5000));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(output.error,
              HasSubstr("was killed: it had not ended 0.7 s after SIGTERM and was in the save to out"));
  EXPECT_THAT(output.error, HasSubstr("--grace gives it more time"));
}

// The ranks take `first` and get `second` before they end.
void expect_quiet_end_after(int first, int second, const std::string& steps, int exit_code) {
  Process process(launcher(2, {steps}), kImpatient);
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(first);
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(second);
  expect_quiet_end(process, exit_code);
}

TEST(Stopping, ExitsWithTheOneOfTwoSignalsWithWhichTheRanksEnd) {
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGINT), std::pair(SIGINT, SIGTERM)})
    expect_quiet_end_after(
        first, second, fmt::format("tell={},on={}:{},ready,wait", first, second, 128 + first), 128 + first);
}

// As `weft train` does.
TEST(Stopping, LetsASecondSignalKillTheRanks) {
  expect_quiet_end_after(SIGINT, SIGTERM, "tell=2,ready,wait", 128 + SIGTERM);
}

// Rank 1 tells first, and rank 0 ends with its own signal.
TEST(Stopping, AcceptsTheSignalsOfTwoRanks) {
  Process process = start({"0:take,agrees=15,kill=15", "1:agrees=2,kill=2"});
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 1 (pid "));
  EXPECT_THAT(output.error, HasSubstr(" got SIGINT from process "));
  EXPECT_THAT(output.error, Not(HasSubstr("rank 0")));
}

// The shell dies of the signal at once.
TEST(Stopping, LetsTheProgramOfAShellFinish) {
  Process process({RANK_PROGRAM, "run", "2", "sh", "-c", shell_rank("slow=15,ready,wait")});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGTERM);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_EQ(output.out, "finished\nfinished\n");
  EXPECT_EQ(output.error, "");
}

TEST(Stopping, KillsTheProgramOfAShellThatIgnoresTheSignal) {
  Process process({RANK_PROGRAM, "run", "1", "sh", "-c", shell_rank("ignore=15,ready,wait")}, kImpatient);
  ASSERT_TRUE(process.wait_for_ready(1));
  process.signal(SIGTERM);
  EXPECT_TRUE(process.wait_for_silence());
  EXPECT_THAT(process.finish().error, HasSubstr("it ignores SIGTERM"));
}

TEST(LauncherKilled, LeavesNoRankBehind) {
  Process process = start({"ignore=15,ready,wait", "ignore=15,ready,wait"});
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGKILL);
  EXPECT_TRUE(process.wait_for_silence());
}

TEST(LauncherKilled, LeavesNothingBehindThatARankStarted) {
  for (const std::string& script :
       {shell_rank("ignore=15,ready,wait"), "setsid " + shell_rank("ignore=15,ready,wait"),
        "(" + shell_rank("ignore=15,ready,wait") + ") & sleep 1000"}) {
    Process process({RANK_PROGRAM, "run", "2", "sh", "-c", script});
    ASSERT_TRUE(process.wait_for_ready(2)) << script;
    process.signal(SIGKILL);
    EXPECT_TRUE(process.wait_for_silence()) << script;
  }
}

TEST(FailedJob, EndsWhatLeftTheGroupOfItsRank) {
  const std::string script = fmt::format(
      "setsid {} rank ignore=15,give=0,wait & {} rank take,exit=3; exit $?", RANK_PROGRAM, RANK_PROGRAM);
  Process process({RANK_PROGRAM, "run", "1", "sh", "-c", script});
  EXPECT_TRUE(process.wait_for_silence());
  EXPECT_EQ(process.finish().exit_code, 3);
}

}  // namespace
}  // namespace weft::launch
