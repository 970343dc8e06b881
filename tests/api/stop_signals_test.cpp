// Signals in an application: Weft leaves its handlers and masks alone until StopSignals asks for them.
#include "weft/stop_signals.hpp"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "api/job.hpp"
#include "base/signals.hpp"
#include "parallel.hpp"
#include "support/canaries.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// What a process does with signals, and what the calling thread has for them.
struct Dispositions {
  Dispositions() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      if (sigaction(number, nullptr, &action) != 0) continue;
      constexpr int kRestorer = 0x04000000;  // which the C library adds
      handlers[number] = {reinterpret_cast<void*>(action.sa_handler), action.sa_flags & ~kRestorer};
    }
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    for (int number = 1; number < NSIG; ++number)
      if (sigismember(&set, number) == 1) blocked.push_back(number);
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    alternate_stack = (stack.ss_flags & SS_DISABLE) == 0 ? stack.ss_sp : nullptr;
  }
  bool operator==(const Dispositions&) const = default;

  std::map<int, std::pair<void*, int>> handlers;
  std::vector<int> blocked;
  void* alternate_stack = nullptr;
};

uint64_t blocked_by(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return ~0ULL;  // it has ended
}

// Returns the threads, besides the calling one, in which a handler of a stop signal could run.
std::vector<std::string> threads_that_take_stop_signals() {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/task")) {
    const std::string thread = entry.path().filename();
    if (thread == std::to_string(gettid())) continue;
    for (const int number : kStopSignals)
      if ((blocked_by(thread) >> (number - 1) & 1) == 0) {
        std::ifstream name("/proc/self/task/" + thread + "/comm");
        std::string text;
        std::getline(name, text);
        found.push_back(thread + " " + text + " " + signal_name(number));
      }
  }
  return found;
}

class StopSignalsTest : public JobTest {};

void expect_passed(const std::vector<RankOutcome>& ranks) {
  for (const RankOutcome& rank : ranks) EXPECT_TRUE(rank.passed) << rank.how << "\n" << rank.output;
}

TEST_F(StopSignalsTest, LibraryCallsLeaveHandlersAndMasksAlone) {
  expect_passed(run_ranks(2, [&](int) {
    at::set_num_threads(3);  // starts two threads that no operation here uses
    const std::vector<std::string> own_threads = threads_that_take_stop_signals();
    const Dispositions before;
    const World world = launch();
    EXPECT_EQ(before, Dispositions());
    Job job = make_job(world, options_);
    Booster booster({}, world);
    job.data = booster.prepare_dataloader(data::text(options_.data, 32), 4, true, 7,
                                          /*drop_last=*/false, /*pin_memory=*/false, /*num_workers=*/2);
    train(job, 3);
    EXPECT_EQ(before, Dispositions());
    booster.save_training(job, in("out"), {.background = true});
    train(job, 1);
    EXPECT_EQ(threads_that_take_stop_signals(), own_threads);
    booster.finish_saving();
    booster.save_training(job, in("again"));
    EXPECT_EQ(before, Dispositions());
  }));
}

// A rank that ends before its peers: their writes to it fail, and no signal ends them.
TEST_F(StopSignalsTest, APeerThatHasEndedCausesNoSignal) {
  const auto ranks = run_ranks(2, [&](int rank) {
    signal(SIGPIPE, SIG_DFL);
    const World world = launch();
    if (rank == 1) _exit(0);
    at::Tensor large = at::zeros({1 << 20});
    for (int i = 0; i < 100; ++i) {
      try {
        world.communicator().send(large, 1, 7).wait();
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), WEFT_UNAVAILABLE);
        return;
      }
    }
    ADD_FAILURE() << "sends to a rank that has ended succeed";
  });
  EXPECT_TRUE(ranks[0].passed) << ranks[0].how << "\n" << ranks[0].output;
}

TEST_F(StopSignalsTest, SetsHandlersOnAnAlternateStackAndRestoresWhatWas) {
  on_ranks({1}, [&](World& world) {
    const Job job = make_job(world, options_);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, [](int) {});
    const Dispositions before;
    {
      const StopSignals signals(job);
      const Dispositions during;
      EXPECT_NE(during.alternate_stack, nullptr);
      EXPECT_EQ(during.blocked, before.blocked);
      for (const int number : {SIGINT, SIGTERM}) {
        EXPECT_NE(during.handlers.at(number), before.handlers.at(number));
        EXPECT_NE(during.handlers.at(number).second & SA_ONSTACK, 0);
      }
      EXPECT_EQ(during.handlers.at(SIGHUP), before.handlers.at(SIGHUP));
      EXPECT_ERROR(StopSignals(job), WEFT_FAILED_PRECONDITION, "stop signals");
      EXPECT_EQ(during, Dispositions());
    }
    EXPECT_EQ(before, Dispositions());
    const StopSignals again(job);
  });
}

TEST_F(StopSignalsTest, UseTheAlternateStackThatIsThere) {
  on_ranks({1}, [&](World& world) {
    const Job job = make_job(world, options_);
    std::vector<char> own(1 << 16);
    stack_t stack{};
    stack.ss_sp = own.data();
    stack.ss_size = own.size();
    ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
    {
      const StopSignals signals(job);
      EXPECT_EQ(Dispositions().alternate_stack, own.data());
    }
    EXPECT_EQ(Dispositions().alternate_stack, own.data());
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
  });
}

TEST_F(StopSignalsTest, NoHandlerRunsOnTheStackOfAComputation) {
  on_ranks({1}, [&](World& world) {
    const Job job = make_job(world, options_);
    at::set_num_threads(3);  // the application's own, whose signals StopSignals blocks
    const StopSignals signals(job);
    std::array<pthread_t, 3> threads{};
    kernels::parallel_for(0, 3, 1, [&](int64_t first, int64_t) { threads[first] = pthread_self(); });
    std::atomic<bool> done = false;
    std::thread rain;
    {
      const BlockSignals in_new_threads;
      rain = std::thread([&] {
        while (!done) {
          for (const pthread_t thread : threads)
            pthread_kill(thread, SIGHUP);  // a second one changes nothing
          kill(getpid(), SIGHUP);
          usleep(50);
        }
      });
    }
    std::atomic<uint64_t> overwritten = 0;
    for (int i = 0; i < 100; ++i)
      kernels::parallel_for(0, 3, 1, [&](int64_t, int64_t) { overwritten += overwritten_below_stack(300); });
    done = true;
    rain.join();
    EXPECT_EQ(overwritten, 0);
    EXPECT_TRUE(*job.stop_requested);
  });
}

TEST_F(StopSignalsTest, EndTheJobOnEveryRankAfterTheSameStep) {
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    const StopSignals signals(job);
    Batch batch;
    ASSERT_TRUE(job.data.next(batch));
    EXPECT_FALSE(job.train_step(batch).stop);
    if (world.rank() == 1) raise(SIGTERM);
    ASSERT_TRUE(job.data.next(batch));
    EXPECT_TRUE(job.train_step(batch).stop);
    const StopSignals::Stop stop = signals.agree(world);
    EXPECT_EQ(stop.signal, SIGTERM);
    EXPECT_EQ(stop.text, "SIGTERM to rank 1");
  });
}

// The second signal ends the process, but not within the time in which one signal may arrive twice.
TEST_F(StopSignalsTest, ASecondSignalEndsTheProcess) {
  const auto ranks = run_ranks(1, [&](int) {
    const World world = launch();
    const Job job = make_job(world, options_);
    const StopSignals signals(job);
    raise(SIGTERM);
    raise(SIGTERM);  // the same one twice
    for (;;) raise(SIGTERM);
  });
  EXPECT_THAT(ranks[0].how, testing::HasSubstr("signal 15"));
}

}  // namespace
}  // namespace weft::test
