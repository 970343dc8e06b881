// Replicas that train on their own for several updates, until they are merged.
#include <limits>

#include "base/text.hpp"
#include "training/bindings.hpp"

namespace weft {

void Bindings::start_merging() {
  const weft_strategy_api& api = strategy_->api();
  const bool asks = WEFT_HAS_FIELD(&api, weft_strategy_api, merge_interval) && api.merge_interval != nullptr,
             merges =
                 WEFT_HAS_FIELD(&api, weft_strategy_api, merge_replicas) && api.merge_replicas != nullptr;
  if (asks != merges)
    fail(WEFT_INTERNAL, "{}: merge_interval and merge_replicas must both be there, or neither of them",
         strategy_name());
  if (!asks) return;
  uint64_t updates = 0;
  uint32_t axes = 0;
  require_one_answer("the interval of merges", "merge_interval", [&] {
    strategy_->call<&weft_strategy_api::merge_interval>(&updates, &axes);
    return fmt::format("{} updates over the axes {:#x}", updates, axes);
  });
  if (updates < 1 || updates > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail(WEFT_INTERNAL, "{}: merge_interval says {} updates, must be at least 1", strategy_name(), updates);
  if (without(axes, Mesh::samples()) != 0)
    fail(WEFT_INTERNAL, "{}: merge_interval says the axes {:#x}, must be data-parallel ones, of {:#x}",
         strategy_name(), axes, Mesh::samples());
  const Axes local = mesh_.open_axes(axes);
  if (const uint32_t sequences = mesh_.sequence_size(); local != 0 && sequences > 1)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: replicas cannot train on their own where {} of their ranks split each sequence; set sp_size to "
         "1",
         strategy_name(), sequences);
  merge_interval_ = static_cast<int64_t>(updates);
  local_axes_ = local;
  merges_ = true;
}

void Bindings::updated() {
  if (!merges_) return;
  differs_ = true;
  if (updates_ % merge_interval_ == 0) merge();
}

void Bindings::merge(bool compares) {
  if (!differs_) return;
  merge_replicas();
  if (compares && options_.booster.check_agreement >= 0) verify([&] { check_replicas(Origin::kMerged); });
}

void Bindings::merge_replicas() {
  strategy_->guarded([&] { strategy_->call<&weft_strategy_api::merge_replicas>(); });
  differs_ = false;
  values_written(WEFT_REASON_MERGE, publish(WEFT_REASON_MERGE));
}

}  // namespace weft
