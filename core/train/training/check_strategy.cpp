// Checks what a strategy must do and the host can see. An error that is not found here would become a hang or
// a wrong gradient later.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "box/cover.hpp"
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
  // A strategy that makes the stages itself need not hold all parameters on each.
  if (mesh_.splits(Mesh::stages()) && options_.host.pipeline.size == 1) return;
  for (const weft_param* param : own_params_)
    if (!param->bound)
      fail(WEFT_INTERNAL, "{}: configure left parameter {} without storage", strategy_name(), param->name);
}

namespace {

// By the index of the parameter. The point is the same on all ranks.
std::vector<Cover> empty_covers(const std::vector<std::unique_ptr<weft_param>>& params) {
  constexpr uint64_t kPoint = 0x9e3779b97f4a7c15 >> 4;
  std::vector<Cover> covers;
  for (const auto& param : params) covers.emplace_back(param->shape, kPoint);
  return covers;
}

}  // namespace

void Bindings::check_published() {
  // How many elements each rank counts of each parameter, and which.
  const std::vector<std::string> all = gather_from_every_rank(world_.communicator(), [&] {
    std::vector<int64_t> counted(params_.size());
    std::vector<Cover> covers = empty_covers(params_);
    std::set<Axes> divided;
    for (const Shard& shard : publish(WEFT_REASON_START)) {
      const weft_param& param = *shard.param;
      counted[param.index] += shard.counted_count;
      for_each_box(param.cut, shard.begin + shard.counted_begin, shard.counted_count,
                   shard.value.narrow(0, shard.counted_begin, shard.counted_count),
                   [&](const Box& box, const at::Tensor&) { covers[param.index].add(box); });
      divided.insert(shard.divided_axes);
      ranges_.push_back({param.index, shard.begin, shard.count});
    }
    std::vector<uint64_t> sums;
    for (const Cover& cover : covers) sums.push_back(cover.sum());
    return nlohmann::json({{"counted", counted}, {"covered", sums}, {"divided", divided}}).dump();
  });
  std::vector<int64_t> total(params_.size());
  std::vector<Cover> covers = empty_covers(params_), whole = empty_covers(params_);
  for (const std::string& text : all) {
    const nlohmann::json published = nlohmann::json::parse(text);
    divided_axes_.merge(published.at("divided").get<std::set<Axes>>());
    for (size_t index = 0; index < params_.size(); ++index) {
      total[index] += published.at("counted")[index].get<int64_t>();
      covers[index].add(published.at("covered")[index].get<uint64_t>());
    }
  }
  for (const auto& param : params_) {
    const Box box = Box::whole(param->shape);
    whole[param->index].add(box);
    constexpr const char* kAdvice = "publish each element once and say over which axes ranges are split";
    if (total[param->index] != box.numel())
      fail(WEFT_INTERNAL,
           "{}: the ranges published of {} count {} elements over all ranks, but it has {}; {}",
           strategy_name(), param->name, total[param->index], box.numel(), kAdvice);
    if (covers[param->index].sum() != whole[param->index].sum())
      fail(WEFT_INTERNAL,
           "{}: the ranges published of {} count some of its {} elements twice and others not at all; {}",
           strategy_name(), param->name, box.numel(), kAdvice);
  }
}

void Bindings::check_ranges(const std::vector<Shard>& shards) const {
  if (ranges_.empty()) return;  // in the first call, or if this rank holds nothing
  const auto same = [](const Shard& shard, const std::array<int64_t, 3>& range) {
    return std::array<int64_t, 3>{shard.param->index, shard.begin, shard.count} == range;
  };
  if (!std::equal(shards.begin(), shards.end(), ranges_.begin(), ranges_.end(), same))
    fail(WEFT_INTERNAL,
         "{}: the {} published ranges are not the {} of configure, in their order; they must not change",
         strategy_name(), shards.size(), ranges_.size());
}

void Bindings::check_written(const std::vector<Shard>& written) {
  const auto compare = [&] {
    const std::vector<Shard> found = publish(WEFT_REASON_CHECK);
    for (size_t i = 0; i < found.size(); ++i) {
      const at::Tensor &now = found[i].value, &then = written[i].value;
      const bool is_one = now.is_alias_of(then) && now.storage_offset() == then.storage_offset();
      if (is_one || now.equal(then)) continue;
      fail(WEFT_INTERNAL,
           "{}: what was written to the published values of {} is not in them when they are published again, "
           "so it is lost; publish the memory itself, not a copy that is made for each call",
           strategy_name(), found[i].param->name);
    }
  };
  strategy_->guarded([&] {
    strategy_->disturb();  // what was written is half lost
    on_every_rank(world_.communicator(), compare);
  });
}

}  // namespace weft
