// The thread in which the `weft` program takes stop signals. Each case runs in a child: signals and masks are
// of a process.
#include "host/signal_thread.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "base/signals.hpp"
#include "support/canaries.hpp"

namespace weft::host {
namespace {

constexpr int kHeld = 0, kBroken = 1, kNotReached = 2;

// Runs `body` in a child, whose exit code is what it returns. With `signal`, sends that signal again and
// again from when the child writes to its pipe until it ends. Returns the exit code, or minus the signal that
// ended it.
int in_child(const std::function<int(int ready)>& body, int signal = 0) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    alarm(60);
    _exit(body(ends[1]));
  }
  close(ends[1]);
  char byte = 0;
  if (signal != 0) EXPECT_EQ(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, signal != 0 ? WNOHANG : 0) == 0) {
    kill(child, signal);
    usleep(50);
  }
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void tell(int ready) {
  if (write(ready, "!", 1) != 1) _exit(kBroken);
}

bool blocks(int number) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  return sigismember(&set, number) == 1;
}

TEST(SignalThread, NeverRunsOnTheStackOfAComputation) {
  for (const int number : kStopSignals) {
    const auto body = [](int ready) {
      SignalThread::of_process().begin();
      std::atomic<int> taken = 0;
      SignalThread::of_process().on_signal([&](int, pid_t) { ++taken; });
      std::atomic<uint64_t> overwritten = 0;
      const auto compute = [&] {
        while (taken < 200) overwritten += test::overwritten_below_stack(100);
      };
      std::thread other(compute);
      tell(ready);
      compute();
      other.join();
      return overwritten == 0 ? kHeld : kBroken;
    };
    EXPECT_EQ(in_child(body, number), kHeld) << signal_name(number);
  }
}

// What the test above would find: an ordinary handler overwrites data.
TEST(SignalThread, IsWhatKeepsHandlersOffThatStack) {
  static std::atomic<int> taken;
  const auto body = [](int ready) {
    taken = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++taken; };
    sigaction(SIGTERM, &action, nullptr);
    tell(ready);
    uint64_t overwritten = 0;
    while (taken < 200) overwritten += test::overwritten_below_stack(100);
    return overwritten == 0 ? kHeld : kBroken;
  };
  EXPECT_EQ(in_child(body, SIGTERM), kBroken);
}

TEST(SignalThread, EndsTheProcessAsTheDefaultActionDoesUntilSomebodyTakesTheSignals) {
  for (const int number : kStopSignals) {
    const auto body = [](int ready) {
      SignalThread::of_process().begin();
      tell(ready);
      for (;;) pause();
      return kNotReached;
    };
    EXPECT_EQ(in_child(body, number), -number);
    const auto body_after = [](int ready) {
      SignalThread::of_process().begin();
      SignalThread::of_process().on_signal([](int, pid_t) {});
      SignalThread::of_process().on_signal(nullptr);
      tell(ready);
      for (;;) pause();
      return kNotReached;
    };
    EXPECT_EQ(in_child(body_after, number), -number);
  }
}

TEST(SignalThread, TellsTheSender) {
  const auto body = [](int ready) {
    SignalThread::of_process().begin();
    std::atomic<pid_t> from = 0;
    SignalThread::of_process().on_signal([&](int, pid_t sender) { from = sender; });
    tell(ready);
    while (from == 0) usleep(100);
    return from == getppid() ? kHeld : kBroken;
  };
  EXPECT_EQ(in_child(body, SIGTERM), kHeld);
}

TEST(SignalThread, LeavesIgnoredSignalsAlone) {
  const auto body = [](int ready) {
    ::signal(SIGHUP, SIG_IGN);
    SignalThread::of_process().begin();
    std::atomic<int> taken = 0, hang_ups = 0;
    SignalThread::of_process().on_signal([&](int number, pid_t) { ++(number == SIGHUP ? hang_ups : taken); });
    if (blocks(SIGHUP) || !blocks(SIGTERM)) return kBroken;
    tell(ready);
    for (int i = 0; i < 100; ++i) kill(getpid(), SIGHUP);
    kill(getpid(), SIGTERM);
    while (taken == 0) usleep(100);
    return hang_ups == 0 ? kHeld : kBroken;
  };
  EXPECT_EQ(in_child(body), kHeld);
}

TEST(SignalThread, GivesChildrenTheMaskFromBefore) {
  const auto body = [](int) {
    SignalThread::of_process().begin();
    if (!blocks(SIGTERM) || !blocks(SIGINT) || !blocks(SIGHUP)) return kBroken;
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? kHeld : kBroken;
  };
  EXPECT_EQ(in_child(body), kHeld);
}

TEST(SignalThread, RestoresTheMaskWhenItEndsAndCanBeginAgain) {
  const auto body = [](int) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &own, nullptr);
    for (int i = 0; i < 3; ++i) {
      SignalThread::of_process().begin();
      if (!SignalThread::of_process().runs() || !blocks(SIGTERM)) return kBroken;
      SignalThread::of_process().end();
      SignalThread::of_process().end();
      if (SignalThread::of_process().runs() || blocks(SIGTERM) || !blocks(SIGUSR1)) return kBroken;
    }
    return kHeld;
  };
  EXPECT_EQ(in_child(body), kHeld);
}

TEST(BlockSignals, KeepsThemOutOfThreadsThatBeginMeanwhile) {
  const auto body = [](int) {
    std::atomic<bool> wrong = false;
    std::thread thread;
    {
      const BlockSignals in_new_threads;
      thread = std::thread([&] {
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGPIPE, SIGXFSZ, SIGPROF})
          if (!blocks(number)) wrong = true;
        for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
          if (blocks(number)) wrong = true;
      });
    }
    if (blocks(SIGTERM)) wrong = true;
    thread.join();
    return wrong ? kBroken : kHeld;
  };
  EXPECT_EQ(in_child(body), kHeld);
}

TEST(BlockSignals, DiscardsThoseOfFailedWritesAndNoOthers) {
  const auto body = [](int) {
    int ends[2];
    if (pipe(ends) != 0) return kBroken;
    close(ends[0]);
    {
      const BlockSignals failed_writes(SIGPIPE);
      if (write(ends[1], "!", 1) != -1 || errno != EPIPE) return kBroken;
    }
    {
      const BlockSignals all;
      if (write(ends[1], "!", 1) != -1 || errno != EPIPE) return kBroken;
      kill(getpid(), SIGTERM);
    }
    return kNotReached;  // SIGTERM has waited, and ends the child now
  };
  EXPECT_EQ(in_child(body), -SIGTERM);
}

}  // namespace
}  // namespace weft::host
