// The thread behind a communication stream: it does its work with a backend of the host, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace weft::sim {

class CommQueue {
 public:
  struct Job {
    std::string name, group;
    std::vector<std::shared_future<void>> before;  // work of other streams on the same memory
    // Each starts a work of the host's backend. All are started before the first is waited for.
    std::vector<std::function<c10::intrusive_ptr<c10d::Work>()>> starts;
    std::mutex* issuing = nullptr;                // held meanwhile: several queues use one backend
    std::vector<std::function<void()>> finishes;  // called when all works have ended
  };

  CommQueue() = default;
  CommQueue(const CommQueue&) = delete;
  // Does all jobs first.
  ~CommQueue();

  // Returns what becomes ready when the job is done, or fails with a text that names it.
  std::shared_future<void> add(Job job);
  // Fails all jobs that are not done, and those to come.
  void abort();

 private:
  // A promise that the thread or abort() fulfils, whoever comes first.
  struct Ticket {
    Job job;
    std::promise<void> done;
    bool fulfilled = false;  // guarded by `mutex_`
  };

  void run();
  void work_on(Ticket& ticket);
  void fulfil(Ticket& ticket, const std::string& failure);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Ticket>> waiting_;
  std::shared_ptr<Ticket> running_;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;  // of the running job
  bool ends_ = false, aborted_ = false;
  std::thread thread_;  // begins with the first job
};

}  // namespace weft::sim
