// Loads batches ahead of their use on background threads and returns them in order.
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

  // Starts to load the batches [first, end) of `fetch` and drops those of the previous call.
  void restart(Fetch fetch, int64_t first, int64_t end);
  // Returns the next batch; blocks until it is loaded. Rethrows the exception of `fetch` for this batch, each
  // time that it is called.
  Batch take();

 private:
  struct Loaded {
    Batch batch;
    std::exception_ptr failure;
  };
  void run();

  const int64_t depth_;  // the number of batches to load ahead of the one in use
  std::mutex mutex_;
  std::condition_variable work_, ready_;
  bool stop_ = false;
  int64_t generation_ = 0;  // the number of restarts; a thread drops a batch of an earlier one
  int64_t started_ = 0, taken_ = 0, end_ = 0;
  std::shared_ptr<const Fetch> fetch_;
  std::map<int64_t, Loaded> loaded_;  // by index
  std::vector<std::thread> threads_;
};

}  // namespace weft::data
