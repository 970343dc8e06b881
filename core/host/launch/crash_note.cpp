#include "host/launch/crash_note.hpp"

#include <signal.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/signals.hpp"
#include "host/launch/failure_report.hpp"

namespace weft {
namespace {

constexpr std::array<int, 5> kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

thread_local const char* text_of_thread = nullptr;

// The handlers are there while some thread has a note.
struct Handlers {
  std::mutex mutex;
  int num_notes = 0;
  std::array<std::optional<struct sigaction>, kCrashes.size()> before = {};  // where ours are set
};

Handlers& handlers() {
  static auto* const made = new Handlers;  // never destroyed: threads call plugins until the end
  return *made;
}

const char* name_of(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    default:
      return "SIGABRT";
  }
}

// Must not allocate.
void on_crash(int number) {
  if (text_of_thread != nullptr) {
    char line[1000];
    size_t size = 0;
    for (const char* part : {text_of_thread, " (", name_of(number), ")"}) {
      const size_t length = std::min(std::strlen(part), sizeof(line) - size);
      std::memcpy(line + size, part, length);
      size += length;
    }
    launch::report_failure_in_handler(WEFT_INTERNAL, line, size);
  }
  end_by_signal(number);
}

// An application may have set a handler of its own meanwhile.
bool is_handled_here(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == on_crash;
}

}  // namespace

CrashNote::CrashNote(const char* text) : outer_(text_of_thread) {
  text_of_thread = text;
  Handlers& all = handlers();
  const std::lock_guard lock(all.mutex);
  if (all.num_notes++ > 0) return;
  for (size_t i = 0; i < kCrashes.size(); ++i) {
    all.before[i].reset();
    if (!has_default_action(kCrashes[i])) continue;
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK;  // where the thread has an alternate stack
    sigaction(kCrashes[i], &action, &all.before[i].emplace());
  }
}

CrashNote::~CrashNote() {
  text_of_thread = outer_;
  Handlers& all = handlers();
  const std::lock_guard lock(all.mutex);
  if (--all.num_notes > 0) return;
  for (size_t i = 0; i < kCrashes.size(); ++i)
    if (all.before[i] && is_handled_here(kCrashes[i])) sigaction(kCrashes[i], &*all.before[i], nullptr);
}

}  // namespace weft
