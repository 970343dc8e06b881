// The options of torch_fsdp, checked: what plugin.json cannot say about them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/torch/strategy.hpp"

namespace torch_fsdp {

enum class Sharding { kFull, kGradOp, kNone, kHybrid };
enum class Prefetch { kNone, kBefore, kAfter };

struct Settings {
  Sharding sharding = Sharding::kFull;
  uint32_t hybrid_size = 0;   // of the groups that divide the model, for kHybrid
  int64_t wrap_elements = 0;  // units are gathered together until they have so many
  Prefetch backward = Prefetch::kBefore;
  bool forward_prefetch = false;
  bool limit_gathers = true;
  bool offloads = false;  // what a rank keeps is in the host's memory
  std::optional<at::ScalarType> reduce_dtype, buffer_dtype;
  std::vector<std::string> ignored_modules;
  bool synchronise_states = false;
  bool mixes_frozen = false;

  // Throws INVALID_ARGUMENT or UNIMPLEMENTED, naming the option.
  static Settings read(const weft::Options& options, uint32_t world_size);

  bool reshard_after_forward() const { return sharding == Sharding::kFull || sharding == Sharding::kHybrid; }
  // Ranks that divide the model among them; the others hold replicas of it.
  uint32_t group_size(uint32_t world_size) const;
};

// Units that are gathered together: the index of its group for each unit, whose own parameters have so many
// elements.
std::vector<size_t> wrap_units(const std::vector<int64_t>& elements, const Settings& settings);

}  // namespace torch_fsdp
