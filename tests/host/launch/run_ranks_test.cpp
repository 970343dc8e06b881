#include "host/launch/run_ranks.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <weft/error.hpp>

#include <chrono>
#include <cstdlib>
#include <regex>

#include "base/text.hpp"
#include "host/launch/process.hpp"

namespace weft::launch {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Which process on which host a rank is: " (pid 42 on box)".
const std::regex kPlace(R"re( \(pid \d+ on [^)]+\))re");

std::string without_places(const std::string& text) {
  return std::regex_replace(text, kPlace, "");
}

Output run_steps(int num_ranks, const std::vector<std::string>& steps, const ProcessOptions& options = {}) {
  return Process(launcher(num_ranks, steps), options).finish();
}

TEST(RunRanks, RefusesNoRanksAndNoProgram) {
  EXPECT_THROW(run_ranks({.num_ranks = 0, .command = {"true"}}), Error);
  EXPECT_THROW(run_ranks({.num_ranks = 5000, .command = {"true"}}), Error);
  EXPECT_THROW(run_ranks({.num_ranks = 1, .command = {}}), Error);
}

TEST(RunRanks, RefusesToStartRanksInsideARank) {
  const Output output =
      run_launcher({"run", "2", "true"}, {.environment = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                          {"OMPI_COMM_WORLD_SIZE", "2"},
                                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                          {"PMIX_NAMESPACE", "1"}}});
  EXPECT_EQ(output.exit_code, 50);
  EXPECT_THAT(output.error, HasSubstr("rank 1 of 2 already, started by mpirun"));
}

TEST(RunRanks, TellsThatThereIsNoSuchProgram) {
  const Output missing = run_launcher({"run", "2", "/no/such/program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.error,
              StartsWith("weft: run: cannot start \"/no/such/program\" as rank 0: No such file"));
  const Output directory = run_launcher({"run", "2", "/"});
  EXPECT_EQ(directory.exit_code, 126);
  EXPECT_THAT(directory.error, HasSubstr("Permission denied"));
}

// Rank 1 writes as if it had begun before rank 0 wrote.
TEST(RunRanks, LosesNoOutputOfRanksThatPrintAtOnce) {
  EXPECT_EQ(run_steps(2, {"0:out=a,give=1", "1:take,rewind,out=b"}).out, "a\nb\n");
}

TEST(RunRanks, GivesRanksTorchrunsEnvironment) {
  const Output output = run_steps(2, {"facts"}, {.environment = {{"TEST_MASTER_ADDR", "localhost"}}});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.error, "");
  EXPECT_THAT(output.out, HasSubstr("rank 0 of 2 local 0 of 2 at localhost:"));
  EXPECT_THAT(output.out, HasSubstr("rank 1 of 2 local 1 of 2 at localhost:"));
  EXPECT_THAT(output.out, HasSubstr("by torchrun; report true listen true"));
  EXPECT_THAT(output.out, HasSubstr("by torchrun; report true listen false"));
  EXPECT_THAT(output.out, Not(HasSubstr("threads unset")));
  EXPECT_THAT(run_steps(1, {"facts"}, {.environment = {{"OMP_NUM_THREADS", "7"}}}).out,
              HasSubstr("threads 7 "));
}

TEST(RunRanks, TakesNoReportChannelFromALauncherThatClosedIt) {
  const Output output =
      run_launcher({"rank", "facts,report=too late"}, {.environment = {{"WEFT_REPORT_FD", "1:12345"}}});
  EXPECT_THAT(output.out, HasSubstr("report false"));
  EXPECT_THAT(output.error, HasSubstr("weft: rank 0 failed: too late\n"));
}

TEST(RunRanks, EndsTheOthersWhenOneFails) {
  const Output output = run_steps(3, {"0:wait", "1:say=out of luck,exit=3", "2:wait"});
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_TRUE(std::regex_search(output.error, kPlace)) << output.error;
  EXPECT_EQ(without_places(output.error),
            "out of luck\n"
            "weft: run: rank 1 exited with code 3; the other ranks were ended\n"
            "      last lines of rank 1:\n"
            "      | out of luck\n");
}

TEST(RunRanks, TellsWhichRankWasKilled) {
  const Output output = Process(launcher(2, {"0:give=1,wait", "1:doing=in step 7,take,kill=9"})).finish();
  EXPECT_EQ(output.exit_code, 128 + SIGKILL);
  EXPECT_EQ(
      without_places(output.error),
      "weft: run: rank 1 was killed by signal 9 (SIGKILL) in step 7; the other ranks were ended; if nobody "
      "sent it, memory ran out: `dmesg` names what the kernel killed\n");
}

TEST(RunRanks, PrintsTheFirstReportOnly) {
  const Output output = run_steps(2, {"0:ignore=15,give=1,take,report=connection closed,exit=5",
                                      "1:take,report=disk is full\ntry another,give=0,exit=4"});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(without_places(output.error), "weft: run: rank 1 failed: disk is full\n      try another\n");
}

// Such as one that takes long to unload its libraries. The launcher kills it, which is not how it failed.
TEST(RunRanks, EndsWithOneIfARankReportsAFailureAndDoesNotEnd) {
  const Output output = run_steps(2, {"0:wait", "1:ignore=15,report=disk is full,wait"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(without_places(output.error), "weft: run: rank 1 failed: disk is full\n");
}

TEST(RunRanks, SaysWhatARankWasDoingWhenItFailed) {
  const Output output = run_steps(1, {"doing=in the save to out,report=disk is full,exit=4"});
  EXPECT_EQ(without_places(output.error), "weft: run: rank 0 failed in the save to out: disk is full\n");
}

TEST(RunRanks, FailsWithARankThatEndsInAStepWithExitCodeZero) {
  const Output output = run_steps(2, {"0:give=1,wait", "1:take,step=step 3"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(without_places(output.error), StartsWith("weft: run: rank 1 exited with code 0 in step 3, "));
}

// Ranks that fail together pass on what one of them failed with.
TEST(RunRanks, NamesTheCulpritThatAReportNames) {
  const Output output = run_steps(2, {"0:report=rank 1 failed: no file,give=1,exit=5", "1:take,wait"});
  EXPECT_EQ(output.exit_code, 5);
  EXPECT_EQ(without_places(output.error), "weft: run: rank 1 failed: no file\n");
  // An error about the rank of a matrix names no culprit.
  EXPECT_EQ(without_places(run_steps(2, {"0:report=rank 1: too small,give=1,exit=5", "1:take,wait"}).error),
            "weft: run: rank 0 failed: rank 1: too small\n");
}

TEST(RunRanks, BlamesAKilledRankRatherThanTheReportOfItsPeer) {
  const Output output =
      run_steps(2, {"0:take,lost=connection closed by peer,take,exit=1", "1:dies=15,give=0,wait"});
  EXPECT_EQ(output.exit_code, 128 + SIGKILL);
  EXPECT_THAT(output.error, HasSubstr("weft: run: rank 1 (pid "));
  EXPECT_THAT(output.error, HasSubstr("was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(output.error, Not(HasSubstr("connection closed")));
}

TEST(RunRanks, BlamesTheRankThatGotASignalRatherThanTheReportOfItsPeer) {
  const Output output =
      run_steps(2, {"0:take,lost=connection closed by peer,give=1,exit=1", "1:give=0,take,kill=15"});
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(without_places(output.error),
              StartsWith("weft: run: rank 1 was killed by signal 15 (SIGTERM); "));
  EXPECT_THAT(output.error, EndsWith("; to stop a job, signal the launcher, which tells all ranks\n"));
}

TEST(RunRanks, BlamesALostPeerWhereNothingExplainsIt) {
  const Output output =
      run_steps(2, {"0:take,lost=timed out,exit=6", "1:doing=in step 7,give=0,stop"}, {.environment = {}});
  EXPECT_EQ(output.exit_code, 6);
  EXPECT_TRUE(std::regex_match(
      without_places(output.error),
      std::regex("weft: run: rank 0 failed: timed out\n"
                 "      rank 1 was in step 7, for [0-9.]+ s, and is stopped \\(SIGSTOP\\)\n")))
      << output.error;
}

// Both ranks that wait for the stopped one give up at about the same time, and may be gone when the launcher
// ends the job.
TEST(RunRanks, SaysWhatEveryRankWaitedForThatLostAPeer) {
  const Output output = run_steps(3,
                                  {"0:doing=in step 7 waiting for stage 2,take,lost=waiting for stage 2: "
                                   "timed out,exit=6",
                                   "1:doing=in step 7 waiting for rank 2,take,lost=timed out,exit=6",
                                   "2:doing=in step 6,give=0,give=1,stop"},
                                  {.environment = {}});
  EXPECT_EQ(output.exit_code, 6);
  const std::string text = without_places(output.error);
  EXPECT_THAT(text,
              testing::ContainsRegex("rank 0 (failed|was) in step 7 waiting for stage 2(: timed|, for)"));
  EXPECT_THAT(text,
              testing::ContainsRegex("rank 1 (failed|was) in step 7 waiting for rank 2(: timed|, for)"));
  EXPECT_THAT(text, testing::ContainsRegex("rank 2 was in step 6, for [0-9.]+ s, and is stopped"));
}

// As `weft train` does: rank 0 leaves first, with the exit code that all ranks agree on.
TEST(RunRanks, StopsWithTheSignalThatOneRankGot) {
  const Output output = run_steps(2, {"0:take,exit=143", "1:doing=in step 7,agrees=15,kill=15"});
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(
      std::regex_match(without_places(output.error),
                       std::regex("weft: run: rank 1 got SIGTERM from process \\d+ \\(weft_launch_ran\\) in "
                                  "step 7; all ranks stop with it\n")))
      << output.error;
}

TEST(RunRanks, NamesAMappedFileThatBecameShorter) {
  const Output output = run_steps(2, {"0:wait", "1:shrink"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error, HasSubstr("failed: /memfd:shrunk (deleted): this file became shorter"));
}

// `weft run ... 2>&1 | head`, and a terminal that was closed.
TEST(RunRanks, GoesOnWhereNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  const Descriptor closed(ends[1]);
  const Output output =
      run_steps(2, {"1:say=lost,give=0", "0:take,say=lost,out=done"}, {.error_fd = closed.get()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.out, "done\n");
}

TEST(RunRanks, FailsWithARankThatReportsButExitsWithZero) {
  const Output output = run_steps(2, {"0:report=half done,exit=0", "1:wait"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(without_places(output.error), "weft: run: rank 0 failed: half done\n");
}

// Such as a training that is saved, but lacks a file of its metrics.
TEST(RunRanks, LeavesTheWordsToARankThatHasExplainedExitCodeOne) {
  for (const char* other : {"1:take,exit=1", "1:take,wait"}) {
    const Output output = run_steps(2, {"0:say=no room for metrics,explained,give=1,exit=1", other});
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_EQ(output.error, "no room for metrics\n");
  }
  const Output killed = run_steps(2, {"0:say=no room,explained,give=1,wait", "1:take,kill=9"});
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_THAT(killed.error, HasSubstr("was killed by signal 9"));
  const Output failed =
      run_steps(2, {"0:say=no room,explained,give=1,wait", "1:take,report=disk is full,exit=1"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.error, HasSubstr("failed: disk is full"));
}

TEST(RunRanks, KillsRanksThatIgnoreSigtermWithinTenSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Output output = run_steps(2, {"0:ignore=15,give=1,wait", "1:take,exit=9"});
  EXPECT_EQ(output.exit_code, 9);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(RunRanks, EndsWhatARankStarted) {
  // The shell dies of SIGTERM, its child ignores it.
  const std::string script = fmt::format(
      "if [ $RANK = 1 ]; then {0} rank take,exit=2; else {0} rank ignore=15,give=1,wait; fi", RANK_PROGRAM);
  Process process({RANK_PROGRAM, "run", "2", "sh", "-c", script + "; exit $?"});
  EXPECT_TRUE(process.wait_for_silence());
  EXPECT_EQ(process.finish().exit_code, 2);
}

TEST(RunRanks, KeepsTheLastTwentyLines) {
  const Output output = run_steps(1, {"lines=30,exit=1"});
  const std::string report = without_places(output.error.substr(output.error.find("weft: run")));
  EXPECT_THAT(
      report,
      StartsWith("weft: run: rank 0 exited with code 1\n      last lines of rank 0:\n      | line 11\n"));
  EXPECT_THAT(report, EndsWith("| line 30\n"));
}

TEST(RunRanks, PassesOutputOnAsItIs) {
  const Output output = run_steps(2, {"0:out=a,say=b,give=1", "1:take,out=c,say=d"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.out, "a\nc\n");
  EXPECT_THAT(output.error, testing::AnyOf("b\nd\n", "d\nb\n"));
}

TEST(RunRanks, GivesInputToRankZeroOnly) {
  const Output output = run_steps(2, {"0:input,give=1", "1:take,input"}, {.input = "text"});
  EXPECT_EQ(output.out, "input text\ninput \n");
}

TEST(RunRanks, LeavesTheTerminalToRankZero) {
  const Descriptor terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_EQ(grantpt(terminal.get()) | unlockpt(terminal.get()), 0);
  const Descriptor slave(open(ptsname(terminal.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  const Output output = run_steps(2, {"0:facts,give=1", "1:take,facts"}, {.error_fd = slave.get()});
  EXPECT_EQ(output.exit_code, 0);
  const std::vector<std::string> lines = split(output.out, '\n');
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], EndsWith("terminal true"));
  EXPECT_THAT(lines[1], EndsWith("terminal false"));
}

TEST(RunRanks, PassesSignalsOn) {
  Process process(launcher(2, {"tell=10,on=15:0,ready,wait"}));
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGUSR1);
  EXPECT_TRUE(process.wait_for_ready(2));
  process.signal(SIGTERM);
  expect_quiet_end(process, 128 + SIGTERM);
}

TEST(RunRanks, LetsInterruptedRanksFinishAndExitsWith130) {
  // Rank 1 is done at once; rank 0 still saves, until SIGUSR1.
  Process process(launcher(2, {"0:tell=2,on=10:0,ready,wait", "1:on=2:130,on=10:130,ready,wait"}));
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGINT);
  ASSERT_TRUE(process.wait_for_ready(1));
  EXPECT_FALSE(process.ended(0));
  process.signal(SIGUSR1);
  expect_quiet_end(process, 130);
}

TEST(RunRanks, SaysNothingWhenRanksDieOfCtrlC) {
  Process process(launcher(2, {"0:ready,wait", "1:on=2:1,ready,wait"}));
  ASSERT_TRUE(process.wait_for_ready(2));
  process.signal(SIGINT);
  expect_quiet_end(process, 130);
}

TEST(RunRanks, KillsOnTheSecondInterrupt) {
  Process process(launcher(2, {"ignore=2,ready,wait"}));
  ASSERT_TRUE(process.wait_for_ready(2));
  for (int i = 0; i < 100 && !process.ended(50); ++i) process.signal(SIGINT);
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 130);
  EXPECT_EQ(output.error, "weft: run: interrupted twice; the ranks are killed\n");
}

TEST(RunSelf, StartsThisProgramOnceMore) {
  const Output output = run_launcher({"self", "2", "facts"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, HasSubstr("rank 0 of 2"));
  EXPECT_THAT(output.out, HasSubstr("rank 1 of 2"));
  EXPECT_THAT(run_launcher({"self", "1", "facts"}).out, HasSubstr("by none; report false"));
  EXPECT_THAT(run_launcher({"self", "2", "1:exit=6"}).error, HasSubstr("exited with code 6"));
}

TEST(RunSelf, RefusesToLaunchInsideTheRanksOfRun) {
  const Output output = run_launcher({"run", "2", RANK_PROGRAM, "self", "2", "facts"});
  EXPECT_EQ(output.exit_code, 50);
  EXPECT_THAT(output.error, HasSubstr("-n starts ranks, but this process is rank"));
  EXPECT_THROW(must_launch(0), Error);
}

}  // namespace
}  // namespace weft::launch
