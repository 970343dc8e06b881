// Records what this process does, as spans of time, for `weft train --trace`. Where nothing is recorded, a
// span costs one read of a flag.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::trace {

// Nanoseconds of the monotonic clock, which all processes of a host share.
using Time = int64_t;
inline Time now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the number of this thread; the first one that asks has 0.
inline uint32_t thread_number() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t number = threads++;
  return number;
}

struct Event {
  std::string name;
  const char* category = "";  // lives as long as the process
  Time begin = 0, end = 0;
  uint32_t thread = 0;
  bool in_background = false;            // overlaps other events of its thread; others are nested or apart
  int64_t micro_batch = -1, bytes = -1;  // -1: none
};

// Returns an event that begins now in this thread.
inline Event begin(std::string name, const char* category, int64_t micro_batch = -1, int64_t bytes = -1) {
  return {std::move(name), category, now(), 0, thread_number(), false, micro_batch, bytes};
}

// What was recorded from start() to stop().
struct Recording {
  std::vector<Event> events;    // in the order in which they ended
  std::optional<Time> full_at;  // there was no room for the events that ended from then on
};

inline std::atomic<bool> recording{false};
inline bool on() {
  return recording.load(std::memory_order_relaxed);
}

// The events of this process. Any thread.
class Recorder {
 public:
  static Recorder& get() {
    static Recorder* const recorder = new Recorder;  // never destroyed: threads may outlive main()
    return *recorder;
  }

  // Begins to record at most this many events.
  void start(size_t most_events) {
    const std::lock_guard lock(mutex_);
    thread_number();
    kept_ = {};
    most_ = most_events;
    recording = true;
  }
  // Adds an event that ends now. When there is no room for it, recording ends.
  void finish(Event event) {
    event.end = now();
    const std::lock_guard lock(mutex_);
    if (!on()) return;
    if (kept_.events.size() < most_) return kept_.events.push_back(std::move(event));
    kept_.full_at = event.end;
    recording = false;
  }
  // Ends the recording and returns it.
  Recording stop() {
    const std::lock_guard lock(mutex_);
    recording = false;
    return std::exchange(kept_, {});
  }

 private:
  std::mutex mutex_;
  Recording kept_;
  size_t most_ = 0;
};

inline void finish(Event event) {
  Recorder::get().finish(std::move(event));
}

// An event that ends with this object.
class Span {
 public:
  // Calls `describe`, which returns begin(...), only while events are recorded.
  template <class Describe>
  explicit Span(const Describe& describe) {
    if (on()) event_ = describe();
  }
  ~Span() {
    if (event_) finish(std::move(*event_));
  }
  Span(const Span&) = delete;

 private:
  std::optional<Event> event_;
};

}  // namespace weft::trace
