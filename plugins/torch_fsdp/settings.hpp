// The options of torch_fsdp, with the checks that plugin.json cannot express.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/torch/strategy.hpp"

namespace weft::plugin::torch_fsdp {

enum class Sharding { kFull, kGradOp, kNone, kHybrid };
enum class Prefetch { kNone, kBefore, kAfter };

struct Settings {
  Sharding sharding = Sharding::kFull;
  uint32_t hybrid_size = 0;   // how many ranks shard the model, for kHybrid
  int64_t wrap_elements = 0;  // groups of units are closed when they have this many elements
  Prefetch backward = Prefetch::kBefore;
  bool forward_prefetch = false;
  bool limit_gathers = true;
  bool offloads = false;  // keeps this rank's parts in host memory
  std::optional<at::ScalarType> reduce_dtype, buffer_dtype;
  std::vector<std::string> ignored_modules;
  bool synchronise_states = false;
  bool mixes_frozen = false;

  // Reads the options. Throws INVALID_ARGUMENT or UNIMPLEMENTED, naming the option.
  static Settings read(const Options& options, uint32_t world_size);

  bool reshard_after_forward() const { return sharding == Sharding::kFull || sharding == Sharding::kHybrid; }
  // Returns how many ranks shard the model; the other ranks hold replicas.
  uint32_t group_size(uint32_t world_size) const;
};

// Groups units that are gathered together. `elements` has the number of elements that each unit owns. Returns
// the index of its group for each unit.
std::vector<size_t> wrap_units(const std::vector<int64_t>& elements, const Settings& settings);

}  // namespace weft::plugin::torch_fsdp
