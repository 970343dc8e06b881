// Killed ranks and stopped jobs in the middle of `weft train`.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "command/command.hpp"

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
  bool ends_soon(launch::Process& process, int limit_ms = kSoonMs) {
    for (int waited = 0; waited < limit_ms; waited += 50) {
      if (process.ended(50)) return true;
      steps_.rest();
    }
    return false;
  }
  // Expects that training can resume from `out`.
  void expect_resumable(const Words& more) {
    const int64_t saved = nlohmann::json::parse(read_bytes(in("out/training_state/state.json"))).at("step");
    EXPECT_GE(saved, 3);
    expect_success(train(
        Words{"--resume", in("out"), "--steps", std::to_string(saved + 1), "--metrics", in("m")} + more));
    const auto lines = read_metrics(in("m"));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].at("step"), saved + 1);
  }

  StepPipe steps_{folder_};
};

TEST_F(Interrupt, ARankKilledInTheMiddleEndsAllAndIsNamed) {
  for (const auto& [rank, stages] :
       {std::pair<std::string, std::string>{"0", "1"}, std::pair<std::string, std::string>{"1", "1"},
        std::pair<std::string, std::string>{"0", "2"}, std::pair<std::string, std::string>{"1", "2"}}) {
    launch::Process process = start({"-n", "2", "--output", in("out"), "-o", "pp_size=" + stages});
    await_three_steps();
    const std::vector<pid_t> found = children_with(process.id(), "RANK=" + rank);
    ASSERT_EQ(found.size(), 1u);
    kill(found[0], SIGKILL);
    ASSERT_TRUE(ends_soon(process));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + SIGKILL);
    EXPECT_THAT(output.error,
                HasSubstr("weft: train: rank " + rank + " (pid " + std::to_string(found[0]) + " on "));
    EXPECT_THAT(output.error, testing::ContainsRegex("signal 9 \\(SIGKILL\\) (in|after) step [0-9]+[,;] "));
    EXPECT_FALSE(fs::exists(in("out")));
    steps_.rest();
  }
}

TEST_F(Interrupt, CtrlCFinishesTheStepAndSaves) {
  launch::Process process = start({"-n", "2", "--output", in("out")});
  await_three_steps();
  process.signal(SIGINT);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGINT);
  EXPECT_THAT(output.error, HasSubstr("stopped after"));
  EXPECT_THAT(output.error, HasSubstr("saved " + in("out")));
  EXPECT_THAT(output.error, testing::Not(HasSubstr("weft: train:")));
  expect_resumable({"-n", "2"});
}

TEST_F(Interrupt, SigtermAndSighupDoTheSame) {
  for (const auto& [signal, ranks] :
       {std::pair{SIGTERM, Words{"--strategy", "none"}}, std::pair{SIGTERM, Words{"-n", "2"}},
        std::pair{SIGHUP, Words{"-n", "2"}}}) {
    launch::Process process = start(ranks + Words{"--output", in("out")});
    await_three_steps();
    process.signal(signal);
    ASSERT_TRUE(ends_soon(process));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + signal);
    EXPECT_THAT(output.error, testing::Not(HasSubstr("weft: train:")));
    expect_resumable(ranks);
    fs::remove_all(in("out"));
    fs::remove(in("m"));
  }
}

// The signal changes when the training ends, and nothing that it computes.
TEST_F(Interrupt, AStoppedJobSavesTheBitsOfAJobOfAsManySteps) {
  for (const Words& ranks : {Words{"--strategy", "none"}, Words{"-n", "2"}}) {
    launch::Process process = start(ranks + Words{"--output", in("out")});
    await_three_steps();
    process.signal(SIGTERM);
    ASSERT_TRUE(ends_soon(process));
    ASSERT_EQ(process.finish().exit_code, 128 + SIGTERM);
    auto state = nlohmann::json::parse(read_bytes(in("out/training_state/state.json")));
    expect_success(train(
        ranks + Words{"--steps", std::to_string(state.at("step").get<int64_t>()), "--output", in("whole")}));
    auto whole = nlohmann::json::parse(read_bytes(in("whole/training_state/state.json")));
    for (nlohmann::json* each : {&state, &whole}) each->erase("saved_at");
    EXPECT_EQ(state, whole);
    int compared = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(in("out"))) {
      const fs::path file = fs::relative(entry.path(), in("out"));
      if (!entry.is_regular_file() || file.filename() == "state.json") continue;
      EXPECT_TRUE(read_bytes(entry.path()) == read_bytes((in("whole") / file).string())) << file;
      ++compared;
    }
    EXPECT_GE(compared, 5);
    fs::remove_all(in("out"));
    fs::remove_all(in("whole"));
    steps_.rest();
  }
}

// The step that is saved is compared: one more is run for that, if there is time.
TEST_F(Interrupt, AStoppedJobDoesNotSaveWhatIsWrongUnderItsName) {
  const Words wrong{"--strategy", "mistaken", "-o", "mistake=averages", "-o", "from_step=3"};
  launch::Process process = start_weft(
      Words{"run", "-n", "2", "env", std::string("WEFT_PLUGIN_ADD_PATH=") + WEFT_TEST_PLUGINS, WEFT_PROGRAM} +
      train(Words{"--steps", "1000000", "--metrics", steps_.path(), "--output", in("out")} + wrong));
  await_three_steps();
  process.signal(SIGTERM);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error, HasSubstr("saved " + in("out.unverified")));
  EXPECT_THAT(output.error, HasSubstr("about 0.50 of it"));
  EXPECT_FALSE(fs::exists(in("out")));
  EXPECT_TRUE(fs::exists(in("out.unverified/training_state")));
}

TEST_F(Interrupt, AStoppedJobWithoutTimeSavesWithoutAComparison) {
  launch::Process process = start({"--strategy", "none", "--grace", "0.0001", "--output", in("out")});
  await_three_steps();
  process.signal(SIGTERM);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(output.error, HasSubstr("is not compared before the save"));
  expect_resumable({"--strategy", "none"});
}

// A handler on the stack of a thread that multiplies matrices would overwrite its data.
TEST_F(Interrupt, NoThreadOfARankHasAHandlerForStopSignals) {
  launch::Process process = start({"-n", "2", "--output", in("out"), "--workers", "2"});
  await_three_steps();
  for (const std::string rank : {"0", "1"}) {
    const std::vector<pid_t> found = children_with(process.id(), "RANK=" + rank);
    ASSERT_EQ(found.size(), 1u);
    int threads = 0;
    for (const fs::directory_entry& thread : fs::directory_iterator(fmt::format("/proc/{}/task", found[0]))) {
      const std::string status = read_bytes(thread.path() / "status");
      const auto set = [&status](const std::string& name) {
        return std::stoull(status.substr(status.find(name) + name.size()), nullptr, 16);
      };
      if (status.empty()) continue;  // it has ended
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        EXPECT_NE(set("SigBlk:") >> (number - 1) & 1, 0u) << status;
        EXPECT_EQ(set("SigCgt:") >> (number - 1) & 1, 0u) << status;
      }
      ++threads;
    }
    EXPECT_GE(threads, 4);
  }
  process.signal(SIGTERM);
  ASSERT_TRUE(ends_soon(process));
  EXPECT_EQ(process.finish().exit_code, 128 + SIGTERM);
}

TEST_F(Interrupt, WarnsOfASaveThatTakesLongerThanTheJobHas) {
  const auto with = [&](const Words& more) {
    return expect_success(train(Words{"--steps", "3", "--save-every", "1", "--output", in("out")} + more))
        .error;
  };
  const Words one{"--strategy", "none"};
  EXPECT_THAT(with(one), testing::Not(HasSubstr("warning")));
  for (const Words& more : {one, Words{"-n", "2"}, one + Words{"--save-async"}}) {
    const std::string warned = with(more + Words{"--grace", "0.001"});
    const size_t first = warned.find("warning: the last save took ");
    ASSERT_NE(first, std::string::npos) << warned;
    EXPECT_THAT(warned, HasSubstr("0.001 s between SIGTERM and SIGKILL"));
    EXPECT_EQ(warned.find("warning: ", first + 1), std::string::npos) << warned;  // once
  }
}

// Whichever rank gets it, and whichever leaves first.
TEST_F(Interrupt, SigtermToOneRankStopsTheJobAndIsNamed) {
  for (const std::string rank : {"0", "1"}) {
    launch::Process process = start({"-n", "2", "--output", in("out")});
    await_three_steps();
    const std::vector<pid_t> found = children_with(process.id(), "RANK=" + rank);
    ASSERT_EQ(found.size(), 1u);
    kill(found[0], SIGTERM);
    ASSERT_TRUE(ends_soon(process));
    const Output output = process.finish();
    EXPECT_EQ(output.exit_code, 128 + SIGTERM) << output.error;
    EXPECT_THAT(output.error,
                HasSubstr("weft: train: rank " + rank + " (pid " + std::to_string(found[0]) + " on "));
    EXPECT_THAT(output.error, HasSubstr(" got SIGTERM from process " + std::to_string(getpid()) + " (" +
                                        program_invocation_short_name + ")"));
    EXPECT_THAT(output.error, HasSubstr("(SIGTERM to rank " + rank + ")"));
    expect_resumable({"-n", "2"});
    fs::remove_all(in("out"));
    fs::remove(in("m"));
    steps_.rest();
  }
}

TEST_F(Interrupt, SignalsOfTwoRanksStopTheJobOnce) {
  launch::Process process = start({"-n", "2", "--output", in("out")});
  await_three_steps();
  const std::vector<pid_t> first = children_with(process.id(), "RANK=0"),
                           second = children_with(process.id(), "RANK=1");
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  kill(first[0], SIGTERM);
  kill(second[0], SIGINT);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM) << output.error;
  EXPECT_THAT(output.error, HasSubstr("(SIGTERM to rank 0)"));
  EXPECT_THAT(output.error, testing::Not(HasSubstr("exited with code")));
  expect_resumable({"-n", "2"});
}

TEST_F(Interrupt, ARankThatIsStoppedIsKilledAndNamed) {
  launch::Process process = start({"-n", "2", "--output", in("out")});
  await_three_steps();
  const std::vector<pid_t> found = children_with(process.id(), "RANK=1");
  ASSERT_EQ(found.size(), 1u);
  kill(found[0], SIGSTOP);
  process.signal(SIGTERM);
  EXPECT_FALSE(process.ended(9000));
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 128 + SIGTERM);
  EXPECT_THAT(output.error, HasSubstr("weft: train: rank 1 (pid " + std::to_string(found[0]) + " on "));
  EXPECT_THAT(output.error, testing::AllOf(HasSubstr("SIGTERM within 10 s"), HasSubstr("(SIGSTOP)")));
  EXPECT_THAT(output.error, testing::ContainsRegex("; it was (in|after) step [0-9]+, ([^\n]*, )?for "));
  EXPECT_THAT(output.error, testing::Not(HasSubstr("rank 0 (pid")));
}

// Whatever the stopped rank was doing, the others wait for it, for each other, or for the end of the step and
// its metrics.
TEST_F(Interrupt, EveryStageSaysForWhomItWaitsWhenARankIsStopped) {
  launch::Process process = start({"-n", "3", "-o", "pp_size=3", "--timeout", "8"});
  await_three_steps();
  const std::vector<pid_t> found = children_with(process.id(), "RANK=1");
  ASSERT_EQ(found.size(), 1u);
  kill(found[0], SIGSTOP);
  ASSERT_TRUE(ends_soon(process, 30'000));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error, testing::ContainsRegex("rank 1 \\(pid " + std::to_string(found[0]) +
                                                   " on [^)]+\\) was (in|after) step [^\n]*stopped"));
  for (const std::string rank : {"0", "2"})
    EXPECT_THAT(output.error,
                testing::ContainsRegex("rank " + rank +
                                       " \\(pid [0-9]+ on [^)]+\\) (failed|was) (in|after) step [0-9]+, "
                                       "[^\n]*waiting for "))
        << output.error;
  EXPECT_THAT(output.error, HasSubstr("after 8 s"));
}

// `weft train 2>&1 | head -1`: the reader leaves, the training does not.
TEST_F(Interrupt, GoesOnWhereNobodyReads) {
  for (const Words& ranks : {Words{"--strategy", "none"}, Words{"-n", "2"}}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    const Descriptor closed(ends[1]);
    launch::Process process(
        Words{WEFT_PROGRAM} +
            train(ranks + Words{"--steps", "3", "--output", in("out"), "--metrics", "/dev/stderr"}),
        {.environment = {{"OMP_NUM_THREADS", "1"}}, .input = "", .error_fd = closed.get()});
    EXPECT_EQ(process.finish().exit_code, 0);
    EXPECT_TRUE(fs::exists(in("out/training_state/state.json")));
    fs::remove_all(in("out"));
  }
}

// The file of tokens is mapped: what is cut off cannot be read.
TEST_F(Interrupt, DataThatBecomeShorterAreNamed) {
  const std::string tokens = folder_.file("tokens.bin", std::string(2 * 32 * 4096, '\0'));
  launch::Process process = start_weft({"train", "--model", config_, "--data", tokens, "--steps", "1000000",
                                        "-n", "2", "--metrics", steps_.path()});
  await_three_steps();
  fs::resize_file(tokens, 100);
  ASSERT_TRUE(ends_soon(process));
  const Output output = process.finish();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error, testing::AllOf(HasSubstr(tokens), HasSubstr("became shorter")));
}

TEST_F(Interrupt, AnotherJobCannotSaveWhereThisOneWill) {
  launch::Process process = start({"--strategy", "none", "--output", in("out")});
  await_three_steps();
  const Words second = train({"--strategy", "none", "--steps", "1", "--output", in("out")});
  EXPECT_TRUE(refuses(second, 1,
                      {in("out"), "another job", "process " + std::to_string(process.id()) + " on host",
                       ".out.saving.lock"}));
  process.signal(SIGTERM);
  ASSERT_TRUE(ends_soon(process));
  EXPECT_THAT(process.finish().error, HasSubstr("saved " + in("out")));
  EXPECT_FALSE(fs::exists(in(".out.saving.lock")));
  steps_.rest();
  expect_success(second);
}

TEST_F(Interrupt, TheLockOfAKilledJobIsTakenOver) {
  launch::Process process = start({"--strategy", "none", "--output", in("out")});
  await_three_steps();
  process.signal(SIGKILL);
  ASSERT_TRUE(ends_soon(process));
  process.finish();
  EXPECT_TRUE(fs::exists(in(".out.saving.lock")));
  expect_success(train({"--strategy", "none", "--steps", "1", "--output", in("out")}));
  EXPECT_FALSE(fs::exists(in(".out.saving.lock")));
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
        train({"-n", ranks, "--optimizer", "sgd", "--lr", "1e30", "--steps", "50", "--output", in("out")}), 1,
        {"loss of", "is nan", "--lr"}));
  EXPECT_FALSE(fs::exists(in("out")));
}

}  // namespace
}  // namespace weft::test
