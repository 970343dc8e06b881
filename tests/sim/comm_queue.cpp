#include "sim/comm_queue.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <stdexcept>
#include <utility>

#include "sim/state.hpp"

namespace weft::sim {

CommQueue::~CommQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_future<void> CommQueue::add(Job job) {
  const auto ticket = std::make_shared<Ticket>();
  ticket->job = std::move(job);
  std::shared_future<void> done = ticket->done.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!aborted_, "sim: ", ticket->job.name, ": not started, the communicator was aborted before");
    waiting_.push_back(ticket);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
  return done;
}

void CommQueue::abort() {
  std::vector<std::shared_ptr<Ticket>> left;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    left.assign(waiting_.begin(), waiting_.end());
    waiting_.clear();
    if (running_) left.push_back(running_);
    works = works_;
  }
  for (const auto& ticket : left) fulfil(*ticket, "aborted");
  for (const auto& work : works) {
    try {
      work->abort();
    } catch (const std::exception&) {
      // Only messages can be aborted on the host. A collective ends there when its time is up.
    }
  }
}

void CommQueue::run() {
  for (;;) {
    std::shared_ptr<Ticket> next;
    {
      std::unique_lock lock(mutex_);
      running_ = nullptr;
      works_.clear();
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = running_ = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      work_on(*next);
      fulfil(*next, "");
    } catch (const c10::Error& error) {
      fulfil(*next, error.what_without_backtrace());
    } catch (const std::exception& error) {
      fulfil(*next, error.what());
    }
    next->job = {};
  }
}

void CommQueue::work_on(Ticket& ticket) {
  const at::NoGradGuard no_grad;
  for (const auto& before : ticket.job.before) before.get();
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  {
    const std::lock_guard lock(*ticket.job.issuing);
    for (const auto& start : ticket.job.starts) works.push_back(start());
  }
  {
    const std::lock_guard lock(mutex_);
    works_ = works;
  }
  for (const auto& work : works) work->wait();
  for (const auto& finish : ticket.job.finishes) finish();
}

void CommQueue::fulfil(Ticket& ticket, const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ticket.fulfilled, true)) return;
  }
  if (failure.empty()) return ticket.done.set_value();
  keep_failure(ticket.job.group + ": " + ticket.job.name + ": " + failure);
  ticket.done.set_exception(
      std::make_exception_ptr(std::runtime_error("sim: " + ticket.job.name + " failed: " + failure)));
}

}  // namespace weft::sim
