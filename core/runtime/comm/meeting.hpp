// Brings the ranks of a job together. Calls that may block for long run in a thread of their own, because
// neither the name service nor the store's client respects a timeout. The waiting thread prints what it waits
// for and returns in time.
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
  // Starts the thread that looks for the other ranks. All ranks have to join within `timeout`.
  static std::shared_ptr<Meeting> begin(const Job& job, std::chrono::milliseconds timeout);
  // Blocks until all ranks have joined. Returns the store, in which launch/rank/N is the host of rank N.
  // Prints on stderr after 10 s, and then once a minute, which ranks are missing, or why the master cannot
  // be reached. Throws UNAVAILABLE if the time is up or the master is lost; INVALID_ARGUMENT if two ranks
  // give different numbers of ranks, or the same rank.
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
  // Sets what wait() waits for, such as "the master at n1:29500: ...", and whether it prints this.
  void now_missing(std::string what, bool is_told);
  bool in_time() const { return Clock::now() < deadline_; }
  std::string who() const;

  Job job_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_;
  c10::intrusive_ptr<c10d::Store> store_;  // only the thread uses it until done_

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string missing_ = "the other ranks";
  bool is_told_ = false;
  bool done_ = false;
  std::exception_ptr failure_;
};

// Returns the key in the store under which a rank leaves the name of its host.
std::string rank_key(int rank);

// Checks that all callers with the same `key` pass the same `value`. Does not wait for them. Throws
// INVALID_ARGUMENT, "<who>: this rank gives <value>, another one <value>", or what the store throws.
void require_same(c10d::Store& store, const std::string& who, const std::string& key,
                  const std::string& value);

}  // namespace weft::comm
