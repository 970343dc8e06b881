#include "host/launch/crash_note.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/signals.hpp"

namespace weft {
namespace {

void exit_7(int) {
  _exit(7);
}

struct sigaction action_of(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action;
}

TEST(CrashNoteDeathTest, IsWrittenBeforeTheSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        signal(SIGFPE, SIG_DFL);  // whatever a sanitizer has set
        const CrashNote outer("outer");
        const CrashNote inner("format alpha crashed");
        raise(SIGFPE);
      },
      testing::KilledBySignal(SIGFPE), "format alpha crashed \\(SIGFPE\\)");
}

TEST(CrashNoteDeathTest, LeavesTheSignalToTheApplicationsHandler) {
  EXPECT_EXIT(
      {
        signal(SIGSEGV, exit_7);
        const CrashNote note("format alpha crashed");
        raise(SIGSEGV);
      },
      testing::ExitedWithCode(7), "format alpha crashed \\(SIGSEGV\\)");
}

TEST(CrashNoteDeathTest, IsThatOfTheThreadThatCrashes) {
  EXPECT_EXIT(
      {
        signal(SIGTRAP, SIG_DFL);
        const CrashNote note("format alpha crashed");
        std::thread([] { raise(SIGTRAP); }).join();
      },
      testing::KilledBySignal(SIGTRAP), "^$");
}

// As a library does that keeps the handler which it found, and sets it again when it is done.
TEST(CrashNoteDeathTest, EndsTheProcessAlsoWhereItsHandlerWasSetAgain) {
  EXPECT_EXIT(
      {
        signal(SIGFPE, SIG_DFL);
        struct sigaction found {};
        {
          const CrashNote note("format alpha crashed");
          found = action_of(SIGFPE);
        }
        sigaction(SIGFPE, &found, nullptr);
        const CrashNote note("format beta crashed");
        raise(SIGFPE);
      },
      testing::KilledBySignal(SIGFPE), "^weft: format beta crashed \\(SIGFPE\\)\n$");
}

TEST(CrashNote, LeavesIgnoredSignalsAlone) {
  const struct sigaction before = action_of(SIGTRAP);
  signal(SIGTRAP, SIG_IGN);
  {
    const CrashNote note("format alpha crashed");
    raise(SIGTRAP);
    EXPECT_TRUE(is_ignored(SIGTRAP));
  }
  sigaction(SIGTRAP, &before, nullptr);
}

TEST(CrashNote, GivesSignalsAndTheStackBack) {
  std::thread([] {
    stack_t stack_before{}, stack_after{};
    sigaltstack(nullptr, &stack_before);
    const struct sigaction before = action_of(SIGSEGV);
    {
      const CrashNote outer("outer");
      { const CrashNote inner("inner"); }
      EXPECT_NE(action_of(SIGSEGV).sa_sigaction, before.sa_sigaction);
    }
    const struct sigaction after = action_of(SIGSEGV);
    EXPECT_EQ(after.sa_sigaction, before.sa_sigaction);
    EXPECT_EQ(after.sa_flags, before.sa_flags);
    sigaltstack(nullptr, &stack_after);
    EXPECT_EQ(stack_after.ss_flags, stack_before.ss_flags);
    EXPECT_EQ(stack_after.ss_sp, stack_before.ss_sp);
  }).join();
}

TEST(CrashNote, KeepsAHandlerThatIsSetMeanwhile) {
  const struct sigaction before = action_of(SIGFPE);
  {
    const CrashNote note("format alpha crashed");
    signal(SIGFPE, exit_7);
  }
  EXPECT_EQ(action_of(SIGFPE).sa_handler, exit_7);
  sigaction(SIGFPE, &before, nullptr);
}

}  // namespace
}  // namespace weft
