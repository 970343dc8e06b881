#include "base/signals.hpp"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.hpp"

namespace weft {

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", number);
}

bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool has_default_action(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
}

void end_by_signal(int number) {
  signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
}

namespace {

constexpr int kFailedWrites[] = {SIGPIPE, SIGXFSZ};

}  // namespace

BlockSignals::BlockSignals() {
  sigset_t set;
  sigfillset(&set);
  for (const int crash : kCrashSignals) sigdelset(&set, crash);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

BlockSignals::BlockSignals(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

BlockSignals::~BlockSignals() {
  sigset_t now, discarded;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  sigemptyset(&discarded);
  for (const int number : kFailedWrites)
    if (sigismember(&now, number) && !sigismember(&before_, number)) sigaddset(&discarded, number);
  const timespec no_time{};
  while (sigtimedwait(&discarded, nullptr, &no_time) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace weft
