// The ranks of a job on their way to one another. All that may block for long runs in a thread of its own,
// because neither the name service nor the store's client keeps a timeout; who waits says what it waits for,
// and leaves in time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "comm/job.hpp"

namespace weft::comm {

class Meeting {
 public:
  // Begins. `timeout`: until all ranks are here.
  static std::shared_ptr<Meeting> begin(const Job& job, std::chrono::milliseconds timeout);
  // Blocks until all ranks are here, and returns the store, in which launch/rank/N is the host of rank N.
  // Says on stderr after 10 s, and once a minute from then on, who or what is missing. Throws UNAVAILABLE if
  // the time is up or the master is lost; INVALID_ARGUMENT if ranks contradict one another.
  c10::intrusive_ptr<c10d::Store> wait();

 private:
  using Clock = std::chrono::steady_clock;
  Meeting(const Job& job, std::chrono::milliseconds timeout);

  void run();
  std::string find_master();
  void open_store(const std::string& address);
  void register_rank();
  void wait_for_ranks();
  void look_for_missing_ranks();
  // What is waited for from now on, "the master at n1:29500: ...", and whether this rank tells while it
  // waits.
  void now_missing(std::string what, bool is_told);
  bool in_time() const { return Clock::now() < deadline_; }
  std::string who() const;

  const Job job_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_;
  c10::intrusive_ptr<c10d::Store> store_;  // of the thread, until done_

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string missing_ = "the other ranks";
  bool is_told_ = false;
  bool done_ = false;
  std::exception_ptr failure_;
};

// The key in the store under which a rank leaves the name of its host.
std::string rank_key(int rank);

std::string host_name();

}  // namespace weft::comm
