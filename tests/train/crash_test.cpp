// After a killed save or on a full disk, the previous checkpoint can still be loaded.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/job.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Save : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  // Returns the step of the training state in `out`; expects that every part of it is of that step.
  int64_t loaded_step(const World& world) const {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.load_training(job, in("out"));
    const int64_t step = job.optimizer.steps();
    Job fresh = make_job(world, options_);
    train(fresh, step);
    for (const auto& item : job.model.module().named_parameters(true))
      EXPECT_TRUE(at::equal(item.value(), fresh.model.module().named_parameters(true)[item.key()]))
          << item.key();
    EXPECT_EQ(job.data.position().batch, step);
    EXPECT_EQ(job.schedule.last_step(), step);
    return step;
  }
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with(".")) names.push_back(entry.path().filename());
    return names;
  }

  TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json());
    options.data = folder_.file("data.txt", sample_text(33 * 32));
    return options;
  }();
};

enum class Traced { kKilled, kEnded, kUnavailable };

// Runs `body` in a child process and kills it when it begins the system call with this number.
Traced kill_at_system_call(int number, const std::function<void()>& body) {
  const pid_t process = fork();
  if (process == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (!WIFSTOPPED(status)) return Traced::kUnavailable;
  for (int stop = 0; stop < 2 * number + 1; ++stop) {  // each call stops twice, on entry and on exit
    ptrace(PTRACE_SYSCALL, process, nullptr, nullptr);
    waitpid(process, &status, 0);
    if (!WIFSTOPPED(status)) return Traced::kEnded;
  }
  ::kill(process, SIGKILL);
  waitpid(process, &status, 0);
  return Traced::kKilled;
}

TEST_F(Save, KilledAtAnySystemCallLeavesOneWholeCheckpoint) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
    train(job, 1);
    constexpr int kCallsApart = 7;  // a save makes some hundred system calls; the test kills at every seventh
    int num_old = 0, num_new = 0;
    for (int number = 0;; number += kCallsApart) {
      ASSERT_LT(number, 5000);
      const Traced traced = kill_at_system_call(number, [&] { booster.save_training(job, in("out")); });
      if (traced == Traced::kUnavailable) GTEST_SKIP() << "ptrace is not allowed here";
      if (traced == Traced::kEnded) break;
      const int64_t step = loaded_step(world);
      ASSERT_FALSE(testing::Test::HasFailure()) << "killed at call " << number;
      ++(step == 1 ? num_old : num_new);
    }
    EXPECT_GT(num_old, 10);
    EXPECT_EQ(loaded_step(world), 2);
    EXPECT_EQ(others(), std::vector<std::string>()) << "a save removes what killed ones left";
  });
}

TEST_F(Save, OnAFullDiskFailsOnEveryRankAndLeavesTheLastOne) {
  on_ranks({1, 2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
    train(job, 1);
    signal(SIGXFSZ, SIG_IGN);
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    for (const rlim_t limit : {0, 300, 5000, 30000}) {  // config.json, random, model, optimizer
      const rlimit small = {limit, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &small);
      try {
        booster.save_training(job, in("out"));
        ADD_FAILURE() << "saved in files of " << limit << " bytes";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), WEFT_RESOURCE_EXHAUSTED) << error.what();
        EXPECT_NE(std::string(error.what()).find(".out.saving-"), std::string::npos) << error.what();
      }
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_EQ(loaded_step(world), 1);
      EXPECT_EQ(others(), std::vector<std::string>());
      world.block_all();
    }
    booster.save_training(job, in("out"));
    EXPECT_EQ(loaded_step(world), 2);
  });
}

// The kernel kills the rank when a file exceeds the limit: in the middle of its part file.
TEST_F(Save, ARankKilledInTheMiddleLeavesTheLastOne) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 1);
    booster.save_training(job, in("out"));
  });
  for (const int killed : {0, 1}) {
    const auto outcomes = run_ranks(2, [&](int rank) {
      World world = launch();
      Booster booster({}, world);
      Job job = make_job(world, options_);
      train(job, 2);
      if (rank == killed) {
        signal(SIGXFSZ, [](int) { raise(SIGKILL); });
        const rlimit small = {20000, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &small);
      }
      booster.save_training(job, in("out"));
    });
    EXPECT_NE(outcomes[killed].how.find("signal 9"), std::string::npos) << outcomes[killed].how;
    EXPECT_FALSE(outcomes[1 - killed].passed);
    on_ranks({1, 2}, [&](World& world) { EXPECT_EQ(loaded_step(world), 1); });
  }
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    train(job, 2);
    booster.save_training(job, in("out"));
    EXPECT_EQ(loaded_step(world), 2);
    if (world.is_master()) EXPECT_EQ(others(), std::vector<std::string>());
  });
}

}  // namespace
}  // namespace weft::test
