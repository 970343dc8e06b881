// Batches made ahead of their use, on threads, and handed out in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/state.hpp"

namespace weft::data {

class Prefetcher {
 public:
  using Fetch = std::function<Batch(int64_t index)>;  // called from several threads at once

  explicit Prefetcher(int64_t num_threads);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // From now on the batches [first, end) of `fetch`; what was under way is dropped.
  void restart(Fetch fetch, int64_t first, int64_t end);
  // The next batch. Rethrows what fetching it threw, and again if called again.
  Batch take();

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr failure;
  };
  void run();

  const int64_t depth_;  // batches ahead of the one in use
  std::mutex mutex_;
  std::condition_variable work_, ready_;
  bool stop_ = false;
  int64_t generation_ = 0;  // of restarts
  int64_t started_ = 0, taken_ = 0, end_ = 0;
  std::shared_ptr<const Fetch> fetch_;
  std::map<int64_t, Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::data
