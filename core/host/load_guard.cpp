#include "host/load_guard.hpp"

#include <atomic>
#include <condition_variable>
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

LoadGuard* innermost = nullptr;  // guarded by the loader's mutex

}  // namespace

// The thread that ends a process whose library does not return.
struct LoadGuard::Watch {
  explicit Watch(std::string library) : library_(std::move(library)) {
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
          fmt::format(
              "{}: {} has not ended within {}; repair the plugin, or leave it out with "
              "WEFT_PLUGIN_DISABLE. The limit is the timeout of the job (--timeout, launch), or 30 min",
              library_, stage_, seconds_text(limit_)));
    }
  }

  const std::string library_;
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
      watch_(std::make_unique<Watch>(library_)) {
  if (outer_ != nullptr) outer_->watch_->pause();
}

LoadGuard::~LoadGuard() {
  watch_.reset();
  innermost = outer_;
  if (outer_ != nullptr) outer_->watch_->resume();
  // After an exception the note stays, since it says where that happened.
  if (std::uncaught_exceptions() == 0)
    note_activity(outer_note_.empty() ? "after the load of " + library_ : outer_note_);
}

void LoadGuard::enter(const char* stage) {
  note_activity(fmt::format("in {} of {}", stage, library_));
  crash_note_.reset();
  crash_text_ = fmt::format("the process crashed in {} of {}", stage, library_);
  crash_note_.emplace(crash_text_.c_str());
  watch_->enter(stage);
}

}  // namespace weft::host

extern "C" void weft_limit_loading(int64_t milliseconds) {
  weft::host::limit_ms = milliseconds;
}
