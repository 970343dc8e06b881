#include "comm/dropped_works.hpp"

#include <exception>

namespace weft::comm {

DroppedWorks::~DroppedWorks() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& work : works_) work->abort();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DroppedWorks::add(c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void DroppedWorks::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !works_.empty(); });
    if (stop_) return;
    const c10::intrusive_ptr<c10d::Work> work = works_.front();
    lock.unlock();
    try {
      work->wait();
    } catch (const std::exception&) {
      // Nobody asked for the result; whoever waits for the group's next collective gets the failure.
    }
    lock.lock();
    works_.pop_front();
  }
}

}  // namespace weft::comm
