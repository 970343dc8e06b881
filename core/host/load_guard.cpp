#include "host/load_guard.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/duration.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "host/launch/failure_report.hpp"
#include "host/loading.h"

namespace weft::host {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int64_t> limit_ms = 30 * 60 * 1000;

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
constexpr size_t kNumCrashes = std::size(kCrashes);

// Of the innermost guard. The handler reads them.
LoadGuard* innermost = nullptr;  // guarded by the loader's mutex
std::atomic<const char*> crash_text = nullptr;
struct sigaction before[kNumCrashes];
bool has_launcher = false;  // which says by itself what a rank was doing

// What follows runs in a handler of signals and must not allocate.

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void on_crash(int number, siginfo_t* info, void*) {
  const int error = errno;
  const char* const text = crash_text;
  if (text != nullptr && !has_launcher) {
    const char* const name = sigabbrev_np(number);
    write_text("weft: SIG");
    write_text(name != nullptr ? name : "?");
    write_text(text);
  }
  const auto* const place = std::find(std::begin(kCrashes), std::end(kCrashes), number);
  sigaction(number, &before[place - std::begin(kCrashes)], nullptr);
  // An instruction that faults does it again after this; other signals must be sent again.
  const bool faults = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
  if (!faults || info->si_code <= 0) raise(number);
  errno = error;
}

}  // namespace

// The handlers of crashes, and the thread that ends a process whose library does not return.
struct LoadGuard::Watch {
  Watch(std::string library, bool is_outermost) : library_(std::move(library)), handles_(is_outermost) {
    if (handles_) take_signals();
    try {
      const BlockSignals in_new_threads;
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // no thread is to be had: then there is no limit
    }
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (handles_) give_signals_back();
  }
  Watch(const Watch&) = delete;

  // Begins the time of a stage.
  void enter(const char* stage) { set(stage, std::chrono::milliseconds(limit_ms)); }
  // Stops the clock while the library loads another one, and begins the stage's time again.
  void pause() { set(stage_, std::chrono::milliseconds::max()); }
  void resume() { enter(stage_); }

 private:
  void set(const char* stage, std::chrono::milliseconds limit) {
    {
      const std::lock_guard lock(mutex_);
      stage_ = stage;
      limit_ = limit;
      end_ = limit == limit.max() ? Clock::time_point::max() : Clock::now() + limit;
    }
    changed_.notify_one();
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (end_ == Clock::time_point::max()) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_until(lock, end_);
      if (done_ || Clock::now() < end_) continue;
      launch::end_with_failure(
          WEFT_DEADLINE_EXCEEDED,
          fmt::format("{}: {} has not ended within {} (--timeout, or the timeout of launch); repair the "
                      "plugin, or leave it out with WEFT_PLUGIN_DISABLE",
                      library_, stage_, seconds_text(limit_)));
    }
  }

  void take_signals() {
    has_launcher = launch::has_report_channel();
    stack_t now{};
    sigaltstack(nullptr, &now);
    if ((now.ss_flags & SS_DISABLE) != 0) {
      const size_t size = std::max<size_t>(sysconf(_SC_SIGSTKSZ), size_t{64} << 10);
      memory_ = std::make_unique<char[]>(size);
      stack_t own{};
      own.ss_sp = memory_.get();
      own.ss_size = size;
      sigaltstack(&own, nullptr);
    }
    struct sigaction action {};
    action.sa_sigaction = &on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < kNumCrashes; ++i) sigaction(kCrashes[i], &action, &before[i]);
  }
  // Leaves a handler alone that the library has set for itself.
  void give_signals_back() const {
    for (size_t i = 0; i < kNumCrashes; ++i) {
      struct sigaction now {};
      sigaction(kCrashes[i], nullptr, &now);
      if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_crash)
        sigaction(kCrashes[i], &before[i], nullptr);
    }
    stack_t now{};
    sigaltstack(nullptr, &now);
    if (memory_ == nullptr || now.ss_sp != memory_.get()) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }

  const std::string library_;
  const bool handles_;
  std::unique_ptr<char[]> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  const char* stage_ = nullptr;
  std::chrono::milliseconds limit_{};
  Clock::time_point end_ = Clock::time_point::max();
  std::thread thread_;
};

LoadGuard::LoadGuard(const LoadedLibrary& library)
    : library_(fmt::format("{} \"{}\" {} ({})", library.kind, library.id, library.version,
                           printable(library.path))),
      outer_note_(current_activity()),
      outer_(std::exchange(innermost, this)),
      watch_(std::make_unique<Watch>(library_, outer_ == nullptr)) {
  if (outer_ != nullptr) outer_->watch_->pause();
}

LoadGuard::~LoadGuard() {
  watch_.reset();
  innermost = outer_;
  crash_text = outer_ == nullptr ? nullptr : outer_->crash_text_.c_str();
  if (outer_ != nullptr) outer_->watch_->resume();
  // After an exception the note stays, since it says where that happened.
  if (std::uncaught_exceptions() == 0)
    note_activity(outer_note_.empty() ? "after the load of " + library_ : outer_note_);
}

void LoadGuard::enter(const char* stage) {
  note_activity(fmt::format("in {} of {}", stage, library_));
  crash_text = nullptr;
  crash_text_ = fmt::format(" in {} of {}\n", stage, library_);
  crash_text = crash_text_.c_str();
  watch_->enter(stage);
}

}  // namespace weft::host

extern "C" void weft_limit_loading(int64_t milliseconds) {
  weft::host::limit_ms = milliseconds;
}
