#include "loader/prefetcher.hpp"

#include <utility>

#include "base/signals.hpp"

namespace weft::data {

namespace {
constexpr int64_t kBatchesPerThread = 2;  // PyTorch's prefetch_factor
}

Prefetcher::Prefetcher(int64_t num_threads) : depth_(kBatchesPerThread * num_threads) {
  const BlockSignals in_new_threads;
  for (int64_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::restart(Fetch fetch, int64_t first, int64_t end) {
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    fetch_ = std::make_shared<const Fetch>(std::move(fetch));
    started_ = taken_ = first;
    end_ = end;
    loaded_.clear();
  }
  work_.notify_all();
}

Batch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return loaded_.count(taken_) != 0; });
  const auto taken = loaded_.find(taken_);
  if (taken->second.failure) std::rethrow_exception(taken->second.failure);
  Batch batch = std::move(taken->second.batch);
  loaded_.erase(taken);
  ++taken_;
  lock.unlock();
  work_.notify_one();
  return batch;
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stop_ || (started_ < end_ && started_ < taken_ + depth_); });
    if (stop_) return;
    const int64_t index = started_++;
    const int64_t generation = generation_;
    const std::shared_ptr<const Fetch> fetch = fetch_;
    lock.unlock();
    Loaded loaded;
    try {
      loaded.batch = (*fetch)(index);
    } catch (...) {
      loaded.failure = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) continue;
    loaded_[index] = std::move(loaded);
    ready_.notify_one();
  }
}

}  // namespace weft::data
