// What a strategy promises and the host can see: a broken promise would be a hang or a wrong gradient later.
#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.hpp"
#include "error_sink.hpp"
#include "training/step.hpp"

namespace weft {

namespace {

// What `body` returns on every rank. A failure on one reaches all: the others would wait for that rank.
// Collective.
std::vector<std::string> on_all_ranks(const World& world, const std::function<std::string()>& body) {
  std::exception_ptr failure;
  nlohmann::json own;
  try {
    own["text"] = body();
  } catch (const std::exception& e) {
    failure = std::current_exception();
    own["failure"] = text_of(e);
  }
  std::vector<std::string> all = {own.dump()};
  if (world.size() > 1) all = world.communicator().gather_text(own.dump());
  if (failure) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const nlohmann::json answer = nlohmann::json::parse(all[rank]);
    if (answer.contains("failure"))
      fail(WEFT_ABORTED, "rank {} failed: {}", rank, answer["failure"].get<std::string>());
    all[rank] = answer["text"].get<std::string>();
  }
  return all;
}

}  // namespace

void Training::require_one_mesh(const std::function<std::string()>& describe) const {
  const std::vector<std::string> all = on_all_ranks(world_, describe);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail(WEFT_INTERNAL,
           "{}: the mesh is {} on rank 0, but {} on rank {}; describe_mesh must say the same on all ranks",
           strategy_name_, all[0], all[rank], rank);
}

void Training::check_bound() const {
  if (mesh_.size(WEFT_AXIS_PIPELINE) > 1) return;
  for (const auto& param : params_)
    if (!param->bound)
      fail(WEFT_INTERNAL, "{}: configure left parameter {} without storage", strategy_name_, param->name);
}

void Training::check_published() {
  const std::vector<std::string> all = on_all_ranks(world_, [&] {
    std::vector<int64_t> counted(params_.size());
    for (const Shard& shard : publish()) {
      counted[shard.param->index] += shard.counted_count;
      ranges_.push_back({shard.param->index, shard.begin, shard.count});
    }
    return nlohmann::json(counted).dump();
  });
  std::vector<int64_t> total(params_.size());
  for (const std::string& text : all) {
    const auto counted = nlohmann::json::parse(text).get<std::vector<int64_t>>();
    std::transform(total.begin(), total.end(), counted.begin(), total.begin(), std::plus<>());
  }
  for (const auto& param : params_) {
    const std::vector<int64_t>& shape = param->shape;
    const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (total[param->index] != elements)
      fail(WEFT_INTERNAL,
           "{}: the ranges published of {} count {} elements over all ranks, but it has {}; publish each "
           "element once and say over which axes ranges are split",
           strategy_name_, param->name, total[param->index], elements);
  }
}

void Training::check_ranges(const std::vector<Shard>& shards) const {
  if (ranges_.empty()) return;  // the first time, or this rank holds nothing
  const auto same = [](const Shard& shard, const std::array<int64_t, 3>& range) {
    return std::array<int64_t, 3>{shard.param->index, shard.begin, shard.count} == range;
  };
  if (!std::equal(shards.begin(), shards.end(), ranges_.begin(), ranges_.end(), same))
    fail(WEFT_INTERNAL,
         "{}: the {} published ranges are not the {} of configure, in their order; they must not change",
         strategy_name_, shards.size(), ranges_.size());
}

void Training::check_driven(const weft_step& step) const {
  const bool whole = mesh_.size(WEFT_AXIS_PIPELINE) == 1;  // no unit is another rank's
  for (size_t i = 0; i < step.micro.size(); ++i) {
    const MicroBatch& micro = step.micro[i];
    std::string missing;
    if (whole && micro.forwards != units_.size())
      missing = fmt::format("with {} forwards of the {} units", micro.forwards, units_.size());
    else if (whole && !micro.finished)
      missing = "without finish";
    else if (step.training && (!micro.backward_begun || !micro.pieces.empty()))
      missing = "without backward";
    if (!missing.empty())
      fail(WEFT_INTERNAL, "{}: run_step returned {} of micro-batch {} of {}", strategy_name_, missing, i,
           step.micro.size());
  }
}

}  // namespace weft
