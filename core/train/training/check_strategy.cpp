// Checks what a strategy must do and the host can see. An error that is not found here would become a hang or
// a wrong gradient later.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "box/cover.hpp"
#include "comm/agreement.hpp"
#include "training/bindings.hpp"

namespace weft {

// Throws unless the strategy gives the same answer on all ranks. Collective.
void Bindings::require_one_answer(const char* what, const char* function,
                                  const std::function<std::string()>& answer) const {
  const std::vector<std::string> all = gather_from_every_rank(world_.communicator(), answer);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(WEFT_INTERNAL, "{}: {} is {} on rank 0, but {} on rank {}; {} must say the same on all ranks",
           strategy_name(), what, all[0], all[rank], rank, function);
}

void Bindings::check_bound() const {
  // A strategy that makes the stages itself need not hold all parameters on each.
  if (mesh_.splits(Mesh::stages()) && options_.host.pipeline.size == 1) return;
  for (const weft_param* param : own_params_)
    if (!param->bound)
      fail(WEFT_INTERNAL, "{}: configure left parameter {} without storage", strategy_name(), param->name);
}

namespace {

using Params = std::vector<std::unique_ptr<weft_param>>;

// By the index of the parameter. The point is the same on all ranks.
std::vector<Cover> empty_covers(const Params& params) {
  constexpr uint64_t kPoint = 0x9e3779b97f4a7c15 >> 4;
  std::vector<Cover> covers;
  for (const auto& param : params) covers.emplace_back(param->shape, kPoint);
  return covers;
}

// How many elements of each parameter ranges count, and which.
class Counted {
 public:
  explicit Counted(const Params& params) : counts_(params.size()), covers_(empty_covers(params)) {}

  void add(const Shard& shard) {
    const weft_param& param = *shard.param;
    counts_[param.index] += shard.counted_count;
    for_each_box(param.cut, shard.begin + shard.counted_begin, shard.counted_count,
                 shard.value.narrow(0, shard.counted_begin, shard.counted_count),
                 [&](const Box& box, const at::Tensor&) { covers_[param.index].add(box); });
  }
  // Adds what another rank has counted.
  void add(const nlohmann::json& other) {
    for (size_t index = 0; index < counts_.size(); ++index) {
      counts_[index] += other.at("counted")[index].get<int64_t>();
      covers_[index].add(other.at("covered")[index].get<uint64_t>());
    }
  }
  nlohmann::json to_json() const {
    std::vector<uint64_t> sums;
    for (const Cover& cover : covers_) sums.push_back(cover.sum());
    return {{"counted", counts_}, {"covered", sums}};
  }
  // Throws INTERNAL unless each element of every parameter is counted once, or, with `may_lack`, none of it.
  void require_whole(const Params& params, const std::string& what, bool may_lack) const {
    std::vector<Cover> whole = empty_covers(params);
    for (const auto& param : params) {
      const Box box = Box::whole(param->shape);
      whole[param->index].add(box);
      const int64_t count = counts_[param->index];
      if (may_lack && count == 0) continue;
      constexpr const char* kAdvice = "publish each element once and say over which axes ranges are split";
      if (count != box.numel())
        fail(WEFT_INTERNAL, "{} of {} count {} elements over all ranks, but it has {}; {}", what, param->name,
             count, box.numel(), kAdvice);
      if (covers_[param->index].sum() != whole[param->index].sum())
        fail(WEFT_INTERNAL, "{} of {} count some of its {} elements twice and others not at all; {}", what,
             param->name, box.numel(), kAdvice);
    }
  }

 private:
  std::vector<int64_t> counts_;
  std::vector<Cover> covers_;
};

}  // namespace

void Bindings::check_published() {
  const std::vector<std::string> all = gather_from_every_rank(world_.communicator(), [&] {
    Counted values(params_);
    std::set<Axes> divided;
    std::vector<Kept> kept;
    for (const Shard& shard : publish(WEFT_REASON_START, &kept)) {
      if (common(shard.divided_axes, local_axes_) != 0)
        fail(WEFT_INTERNAL,
             "{}: {} is split over an axis of merge_interval, along which each rank must have all that it "
             "trains",
             strategy_name(), shard.param->name);
      values.add(shard);
      divided.insert(shard.divided_axes);
      ranges_.push_back({shard.param->index, shard.begin, shard.count});
    }
    std::map<std::string, Counted> own;
    for (const Kept& one : kept) own.try_emplace(one.name, params_).first->second.add(one.range);
    nlohmann::json told = {{"values", values.to_json()}, {"divided", divided}};
    for (const auto& [name, counted] : own) told["kept"][name] = counted.to_json();
    return told.dump();
  });
  Counted values(params_);
  std::map<std::string, Counted> own;
  for (const std::string& text : all) {
    const nlohmann::json published = nlohmann::json::parse(text);
    divided_axes_.merge(published.at("divided").get<std::set<Axes>>());
    values.add(published.at("values"));
    const nlohmann::json kept = published.value("kept", nlohmann::json::object());
    for (const auto& [name, counted] : kept.items())
      own.try_emplace(name, params_).first->second.add(counted);
  }
  values.require_whole(params_, strategy_name() + ": the ranges published", false);
  for (const auto& [name, counted] : own)
    counted.require_whole(params_, fmt::format("{}: the ranges of \"{}\" published", strategy_name(), name),
                          true);
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
