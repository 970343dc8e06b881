#include "room.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

#include "weft/torch/values.hpp"

namespace weft::plugin::gemini {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

void largest_over(const Communicator& ranks, std::vector<int64_t>& values) {
  if (ranks.size() == 1) return;
  const at::Tensor all = at::tensor(values, at::kLong);
  ranks.all_reduce(all, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL).wait();
  values = values_of<int64_t>(all);
}

int64_t fraction(int64_t bytes, double ratio) {
  return bytes == kUnlimited ? kUnlimited : static_cast<int64_t>(static_cast<double>(bytes) * ratio);
}

}  // namespace

Room::Room(const PlacementOptions& options, Communicator ranks, StatisticsKey key, std::string memstats)
    : options_(options), ranks_(ranks), key_(std::move(key)), memstats_(std::move(memstats)) {
  statistics_.computing.resize(key_.operations);
  base_ = pool_info(WEFT_POOL_ACCELERATOR).computing;
}

void Room::agree() {
  std::optional<Statistics> read;
  if (!memstats_.empty()) read = read_statistics(memstats_, key_);
  std::vector<int64_t> values = {-pool_info(WEFT_POOL_ACCELERATOR).capacity, !read, 0};
  if (read) values[2] = read->most_in_use;
  const Statistics own = read.value_or(statistics_);
  values.insert(values.end(), own.computing.begin(), own.computing.end());
  largest_over(ranks_, values);
  capacity_ = -values[0];
  warming_up_ = values[1] != 0;
  if (!warming_up_) statistics_ = {{values.begin() + 3, values.end()}, values[2]};
}

void Room::take(int64_t computing, int64_t in_use) {
  int64_t& most = statistics_.computing[operation_];
  most = std::max(most, computing - base_);
  statistics_.most_in_use = std::max(statistics_.most_in_use, most + in_use);
}

void Room::sample(size_t operation, int64_t in_use) {
  if (!warming_up_) return;
  if (sampling_) take(pool_info(WEFT_POOL_ACCELERATOR).computing_peak, in_use_);
  sampling_ = sampling_ || operation == 0;
  operation_ = operation;
  in_use_ = in_use;
  pools().reset_computing_peak();
}

bool Room::end_step(bool writes) {
  if (!warming_up_ || !sampling_) return false;
  take(pool_info(WEFT_POOL_ACCELERATOR).computing_peak, in_use_);
  std::vector<int64_t> values = statistics_.computing;
  values.push_back(statistics_.most_in_use);
  largest_over(ranks_, values);
  statistics_ = {{values.begin(), values.end() - 1}, values.back()};
  warming_up_ = sampling_ = false;
  if (writes && !memstats_.empty()) write_statistics(memstats_, key_, statistics_);
  return true;
}

int64_t Room::steady_capacity() const {
  return fraction(capacity_, options_.steady_cuda_cap_ratio);
}

int64_t Room::at(size_t operation) const {
  if (capacity_ == kUnlimited) return kUnlimited;
  if (warming_up_) return fraction(capacity_, 1 - options_.warmup_non_model_data_ratio);
  return std::max<int64_t>(0, steady_capacity() - statistics_.computing[operation]);
}

int64_t Room::margin() const {
  return capacity_ == kUnlimited ? kUnlimited
                                 : std::max<int64_t>(0, steady_capacity() - statistics_.most_in_use);
}

}  // namespace weft::plugin::gemini
