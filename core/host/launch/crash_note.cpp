#include "host/launch/crash_note.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/signals.hpp"
#include "host/launch/failure_report.hpp"

namespace weft {
namespace {

constexpr size_t kLeastStack = size_t{64} << 10;

thread_local const char* text_of_thread = nullptr;

// The handlers are there while some thread has a note.
struct Handlers {
  std::mutex mutex;
  int num_notes = 0;
  std::array<struct sigaction, std::size(kCrashSignals)> before =
      {};  // the default action where it is unknown
};

Handlers& handlers() {
  static auto* const made = new Handlers;  // never destroyed: threads call plugins until the end
  return *made;
}

// Must not allocate.
void report(const char* text, int number) {
  const char* const name = sigabbrev_np(number);
  char line[1000];
  size_t size = 0;
  for (const char* part : {text, " (SIG", name != nullptr ? name : "?", ")"}) {
    const size_t length = std::min(std::strlen(part), sizeof(line) - size);
    std::memcpy(line + size, part, length);
    size += length;
  }
  launch::report_failure_in_handler(WEFT_INTERNAL, line, size);
}

// Must not allocate.
void on_crash(int number, siginfo_t* info, void*) {
  const int error = errno;
  if (text_of_thread != nullptr) report(text_of_thread, number);
  const auto* const place = std::find(std::begin(kCrashSignals), std::end(kCrashSignals), number);
  sigaction(number, &handlers().before[place - std::begin(kCrashSignals)], nullptr);
  // An instruction that faults does it again after this; other signals must be sent again.
  const bool faults = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
  if (!faults || info->si_code <= 0) raise(number);
  errno = error;
}

// An application may have set a handler of its own meanwhile.
bool is_handled_here(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) != 0 &&
         action.sa_sigaction == &on_crash;
}

void begin_handlers(Handlers& all) {
  for (size_t i = 0; i < std::size(kCrashSignals); ++i) {
    // Someone who had saved our handler may have set it again after the last note: it must not follow itself.
    if (is_ignored(kCrashSignals[i]) || is_handled_here(kCrashSignals[i])) continue;
    struct sigaction action {};
    action.sa_sigaction = &on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(kCrashSignals[i], &action, &all.before[i]);
  }
}

void end_handlers(const Handlers& all) {
  for (size_t i = 0; i < std::size(kCrashSignals); ++i)
    if (is_handled_here(kCrashSignals[i])) sigaction(kCrashSignals[i], &all.before[i], nullptr);
}

// Gives this thread an alternate stack. Returns its memory; null if the thread has one.
std::unique_ptr<char[]> begin_stack() {
  stack_t now{};
  sigaltstack(nullptr, &now);
  if ((now.ss_flags & SS_DISABLE) == 0) return nullptr;
  stack_t own{};
  own.ss_size = std::max<size_t>(sysconf(_SC_SIGSTKSZ), kLeastStack);
  std::unique_ptr<char[]> memory(new char[own.ss_size]);  // not initialised: it may never be touched
  own.ss_sp = memory.get();
  sigaltstack(&own, nullptr);
  return memory;
}

void end_stack(const char* memory) {
  stack_t now{};
  sigaltstack(nullptr, &now);
  if (memory == nullptr || now.ss_sp != memory) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace

CrashNote::CrashNote(const char* text) : outer_(std::exchange(text_of_thread, text)), stack_(begin_stack()) {
  Handlers& all = handlers();
  const std::lock_guard lock(all.mutex);
  if (all.num_notes++ == 0) begin_handlers(all);
}

CrashNote::~CrashNote() {
  {
    Handlers& all = handlers();
    const std::lock_guard lock(all.mutex);
    if (--all.num_notes == 0) end_handlers(all);
  }
  end_stack(stack_.get());
  text_of_thread = outer_;
}

}  // namespace weft
