#include "comm/dropped_works.hpp"

#include <exception>
#include <system_error>

#include "base/signals.hpp"

namespace weft::comm {

DroppedWorks::~DroppedWorks() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& work : works_) {
      try {
        work->abort();
      } catch (const std::exception&) {
        // c10d throws for a kind of work that cannot be cancelled; a destructor must not.
      }
    }
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DroppedWorks::add(c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  const BlockSignals in_new_threads;
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // This host gives no more threads: the work ends with the group. Called by a destructor, which must not
    // throw.
  }
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
      // Nobody asked for this result. The next collective of the group fails and is reported.
    }
    lock.lock();
    works_.pop_front();
  }
}

}  // namespace weft::comm
