// The part of a plan that describes one module, and the sizes for which a plan is made. Plain data, the same
// on every rank.
#pragma once

#include <weft/shard_policy.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/axes.hpp"
#include "weft/cut.hpp"

namespace weft::plan {

// The sizes of the axes and the flags for which a plan is made.
struct ParallelSizes {
  uint32_t tensor = 1;
  uint32_t sequence = 1;
  uint32_t pipeline = 1;
  uint32_t data = 1;
  bool fused_normalization = true;
  bool flash_attention = true;
  bool jit_fused = true;
  bool parallel_output = true;
  // How sequences are split: a value of the option sequence_parallelism_mode, or "whole". Lives as long as
  // the process.
  std::string_view sequence_mode = "whole";
  // A policy does not see the members below.
  bool sequence_overlap = false;
  uint32_t inner_ring = 1;
  // Each rank's shard of a vocabulary has a multiple of so many rows; only the last ranks may have fewer.
  int64_t vocabulary_multiple = 1;
};

// A typed value of an entry. `kind` is one of WEFT_KIND_*.
struct Attribute {
  std::string key;
  uint32_t kind = WEFT_KIND_NONE;
  int64_t integer = 0;  // BOOL and INT
  double real = 0;      // FLOAT
  std::string text;     // TEXT and JSON
  bool operator==(const Attribute&) const = default;
};

// A parameter and the shard of it that each rank keeps.
struct PlannedParameter {
  std::string name;            // "weight"
  std::vector<int64_t> shape;  // whole
  // One cut for each place along `partition_axes` (for an operation: each rank of the tensor axis). Empty if
  // the parameter is replicated. A cut may itself be empty, for a parameter that lives on other ranks.
  std::vector<Cut> cuts;
  Axes partition_axes = 0;             // the axes over which it is sharded
  Axes gradient_axes = sample_axes();  // the axes over which its gradient is summed, except partition_axes

  // Returns the shape of the shard at `place` along `partition_axes`.
  std::vector<int64_t> local(uint32_t place) const { return cuts.empty() ? shape : cuts[place].local(); }
  // Returns true if both parameters are sharded and summed in the same way.
  bool is_cut_like(const PlannedParameter& other) const {
    return cuts == other.cuts && partition_axes == other.partition_axes &&
           gradient_axes == other.gradient_axes;
  }
};

// One module of a plan.
struct PlannedNode {
  std::string path;
  std::string kind;
  std::vector<PlannedParameter> params;
};

}  // namespace weft::plan
