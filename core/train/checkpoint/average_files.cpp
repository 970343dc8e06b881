#include "checkpoint/average_files.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "checkpoint/shard_pieces.hpp"

namespace weft::checkpoint {

namespace {

constexpr const char* kAverage = "average/";

Entry entry_of(const WeightAverage::Range& range) {
  return {kAverage + range.shard.param->name, range.average.scalar_type(), range.shard.param->shape};
}

}  // namespace

bool is_average(const std::string& name) {
  return name.starts_with(kAverage);
}

void add_averages(WeightAverage& average, Pieces& pieces) {
  for (const WeightAverage::Range& range : average.ranges())
    add_held(range.shard, entry_of(range), range.shard.param->index, range.average, pieces);
}

void want_averages(WeightAverage& average, Pieces& pieces) {
  for (const WeightAverage::Range& range : average.ranges())
    add_wanted(range.shard, entry_of(range), range.shard.param->index, range.average, pieces);
}

bool read_averages(const PartsReader& parts, const std::string& path, WeightAverage& average) {
  if (std::none_of(parts.entries().begin(), parts.entries().end(),
                   [](const Entry& entry) { return is_average(entry.name); }))
    return false;
  for (const WeightAverage::Range& range : average.ranges()) {
    const Entry wanted = entry_of(range);
    const std::optional<size_t> found = parts.find(wanted.name);
    if (!found || parts.entries()[*found].shape != wanted.shape)
      fail(WEFT_DATA_LOSS, "{}: {} is missing, or has another shape than ({})", path, wanted.name,
           fmt::join(wanted.shape, ", "));
    Pieces pieces;
    add_wanted(range.shard, parts.entries()[*found], range.shard.param->index, range.average, pieces);
    for (const Piece& piece : pieces) parts.read(*found, piece.box, piece.values);
  }
  return true;
}

Pieces averaged_values(WeightAverage& average, const std::vector<Shard>& shards) {
  std::map<std::pair<uint32_t, int64_t>, at::Tensor> averages;
  for (const WeightAverage::Range& range : average.ranges())
    averages[{range.shard.param->index, range.shard.begin}] = range.average;
  Pieces pieces;
  for (const Shard& shard : shards) {
    const weft_param& param = *shard.param;
    const auto found = averages.find({param.index, shard.begin});
    add_held(shard, {param.name, param.tensor.scalar_type(), param.shape}, param.index,
             found == averages.end() ? shard.value : found->second, pieces);
  }
  return pieces;
}

}  // namespace weft::checkpoint
