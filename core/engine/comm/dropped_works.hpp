// Sends and receives whose Work was dropped before its end. c10d cancels one when its last reference goes, so
// somebody has to hold and wait for them: a thread, started at the first one.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace weft::comm {

class DroppedWorks {
 public:
  DroppedWorks() = default;
  DroppedWorks(const DroppedWorks&) = delete;
  DroppedWorks& operator=(const DroppedWorks&) = delete;
  // Cancels what has not ended.
  ~DroppedWorks();

  void add(c10::intrusive_ptr<c10d::Work> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<c10d::Work>> works_;  // the first is the one waited for
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::comm
