// What a strategy promises and the host can see: a broken promise would be a hang or a wrong gradient later.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "training/bindings.hpp"

namespace weft {

void Bindings::require_one_mesh(const std::function<std::string()>& describe) const {
  const std::vector<std::string> all = gather_from_every_rank(world_.communicator(), describe);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(WEFT_INTERNAL,
           "{}: the mesh is {} on rank 0, but {} on rank {}; describe_mesh must say the same on all ranks",
           strategy_name(), all[0], all[rank], rank);
}

void Bindings::check_bound() const {
  if (mesh_.splits(Mesh::stages())) return;
  for (const auto& param : params_)
    if (!param->bound)
      fail(WEFT_INTERNAL, "{}: configure left parameter {} without storage", strategy_name(), param->name);
}

void Bindings::check_published() {
  const std::vector<std::string> all = gather_from_every_rank(world_.communicator(), [&] {
    std::vector<int64_t> counted(params_.size());
    std::set<Axes> divided;
    for (const Shard& shard : publish()) {
      counted[shard.param->index] += shard.counted_count;
      divided.insert(shard.divided_axes);
      ranges_.push_back({shard.param->index, shard.begin, shard.count});
    }
    return nlohmann::json({{"counted", counted}, {"divided", divided}}).dump();
  });
  std::vector<int64_t> total(params_.size());
  for (const std::string& text : all) {
    const nlohmann::json published = nlohmann::json::parse(text);
    divided_axes_.merge(published.at("divided").get<std::set<Axes>>());
    const auto counted = published.at("counted").get<std::vector<int64_t>>();
    std::transform(total.begin(), total.end(), counted.begin(), total.begin(), std::plus<>());
  }
  for (const auto& param : params_) {
    const std::vector<int64_t>& shape = param->shape;
    const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (total[param->index] != elements)
      fail(WEFT_INTERNAL,
           "{}: the ranges published of {} count {} elements over all ranks, but it has {}; publish each "
           "element once and say over which axes ranges are split",
           strategy_name(), param->name, total[param->index], elements);
  }
}

void Bindings::check_ranges(const std::vector<Shard>& shards) const {
  if (ranges_.empty()) return;  // the first time, or this rank holds nothing
  const auto same = [](const Shard& shard, const std::array<int64_t, 3>& range) {
    return std::array<int64_t, 3>{shard.param->index, shard.begin, shard.count} == range;
  };
  if (!std::equal(shards.begin(), shards.end(), ranges_.begin(), ranges_.end(), same))
    fail(WEFT_INTERNAL,
         "{}: the {} published ranges are not the {} of configure, in their order; they must not change",
         strategy_name(), shards.size(), ranges_.size());
}

}  // namespace weft
