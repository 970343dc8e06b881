// Device streams and the events that order them. A device stream is a queue: the device does the work of one
// stream in its order, and the work of several at once. The host gives work to the current stream of its
// thread and goes on.
//
// The CPU has no streams: work is done when the function that gave it returns. There a Stream is empty, each
// function below tests that, and code that orders its work by events is the same for all devices:
//
//   Event filled;
//   {
//     const OnStream side(copies);     // reads what the caller's stream has written
//     to.copy_(from, /*non_blocking=*/true);
//     filled.record();
//   }
//   ...
//   filled.wait();                     // the current stream uses `to` after the copy; the host does not wait
//
// Memory must live until the streams that use it are ordered behind its last use: keep the tensor until then.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "device/device.hpp"

namespace weft::device {

// A value; copies are the same stream.
class Stream {
 public:
  Stream() = default;  // of the CPU

  // Returns the stream to which this thread gives work.
  static Stream of_thread() { return current().is_host() ? Stream() : current_stream(); }
  // Returns another stream of the device. A device has a fixed number, so two calls may return the same.
  static Stream make() { return current().is_host() ? Stream() : new_stream(); }

  // Makes it the stream to which this thread gives work from now on, behind what it has given so far.
  void make_current() const;

  // Blocks until the stream's work is done.
  void synchronise() const {
    if (!stream_) return;
    stream_->synchronize();
    check_work();
  }

 private:
  friend class Event;
  friend class OnStream;
  explicit Stream(c10::Stream stream) : stream_(stream) {}
  static Stream current_stream();
  static Stream new_stream();

  std::optional<c10::Stream> stream_;
};

// A point in the work of a stream. Not for several threads at once. It can be recorded again; whoever waited
// before waits for the earlier point.
class Event {
 public:
  // Marks the work that `stream` has been given so far.
  void record(const Stream& stream = Stream::of_thread()) {
    if (!stream.stream_) return;
    if (!event_) event_.emplace(stream.stream_->device_type());
    event_->record(*stream.stream_);
  }
  // Orders the work that `stream` is given from now on behind what was marked. The host goes on.
  void wait(const Stream& stream = Stream::of_thread()) const {
    if (event_ && stream.stream_) event_->block(*stream.stream_);
  }
  // Returns whether the marked work is done.
  bool is_done() const { return !event_ || event_->query(); }
  // Blocks until it is.
  void synchronise() const {
    if (!event_) return;
    event_->synchronize();
    check_work();
  }

 private:
  std::optional<c10::Event> event_;  // nothing before the first record, and on the CPU
};

// Makes `stream` the current one of this thread while it lives, behind the work that the thread's stream has
// been given so far.
class OnStream {
 public:
  explicit OnStream(const Stream& stream) {
    if (!stream.stream_) return;
    Event before;
    before.record();
    before.wait(stream);
    guard_.reset_stream(*stream.stream_);
  }
  OnStream(const OnStream&) = delete;

 private:
  c10::OptionalStreamGuard guard_;
};

}  // namespace weft::device
