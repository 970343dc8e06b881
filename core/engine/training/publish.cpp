#include "training/publish.hpp"

#include "error_sink.hpp"

namespace weft {

namespace {

// The part of [0, count) that this rank counts.
std::pair<int64_t, int64_t> counted_part(const Training& training, uint32_t partition_axes, int64_t count) {
  int64_t index = 0, copies = 1;
  for (uint32_t axis = 0; axis < WEFT_AXES; ++axis) {
    if (partition_axes >> axis & 1 || training.axis_size(axis) <= 1) continue;
    if (axis != WEFT_AXIS_DATA && axis != WEFT_AXIS_REPLICA) {
      if (training.coordinate(axis) != 0) return {0, 0};
      continue;
    }
    index = index * training.axis_size(axis) + training.coordinate(axis);
    copies *= training.axis_size(axis);
  }
  const int64_t begin = count * index / copies, end = count * (index + 1) / copies;
  return {begin, end - begin};
}

}  // namespace

void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value, const at::Tensor& gradient) {
  weft_param* const param = record.param;
  if (param == nullptr || record.begin < 0 || record.count < 0 || record.begin + record.count > param->count() ||
      value.numel() != record.count || (gradient.defined() && gradient.numel() != record.count))
    throw Error(WEFT_INVALID_ARGUMENT,
                "published range [" + std::to_string(record.begin) + ", " + std::to_string(record.begin + record.count) +
                    ") of " + (param == nullptr ? "no parameter" : param->name) + " with " + std::to_string(value.numel()) +
                    " values does not fit its " + std::to_string(param == nullptr ? 0 : param->count()) + " elements");
  Shard shard;
  shard.param = param;
  shard.begin = record.begin;
  shard.count = record.count;
  shard.value = value.detach().view(-1);
  if (gradient.defined() && !param->frozen) shard.gradient = gradient.detach().view(-1);
  shard.partition_axes = record.partition_axes | param->partition_axes;
  shard.copy = (record.flags & WEFT_SHARD_COPY) != 0;
  if (!shard.copy)
    std::tie(shard.counted_begin, shard.counted_count) = counted_part(*sink.training, shard.partition_axes, shard.count);
  sink.shards.push_back(std::move(shard));
}

std::vector<Shard> Training::publish() {
  weft_shard_sink sink{this, {}};
  ErrorSink error;
  error.check(api_->publish(strategy_, &sink, error), strategy_name_);
  return std::move(sink.shards);
}

}  // namespace weft
