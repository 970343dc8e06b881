// Keeps sends and receives whose Work was dropped before they ended. c10d cancels one when its last reference
// goes, so a thread holds and waits for them. It is started for the first one.
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
  // Cancels those that have not ended.
  ~DroppedWorks();

  void add(c10::intrusive_ptr<c10d::Work> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<c10d::Work>> works_;  // the thread waits for the first one
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::comm
