// What a plan says of one module, and the sizes that it is made for. Plain data, the same on every rank.
#pragma once

#include <weft/shard_policy.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/axes.hpp"
#include "weft/cut.hpp"

namespace weft::plan {

// The sizes of the axes and the flags that a policy may look at.
struct ParallelSizes {
  uint32_t tensor = 1;
  uint32_t sequence = 1;
  uint32_t pipeline = 1;
  uint32_t data = 1;
  bool fused_normalization = true;
  bool flash_attention = true;
  bool jit_fused = true;
  bool parallel_output = true;
  uint32_t sequence_mode = WEFT_SEQUENCE_WHOLE;
  // Of these a policy knows nothing.
  bool sequence_overlap = false;
  uint32_t inner_ring = 1;
  int64_t vocabulary_multiple =
      1;  // ranks get whole multiples of so many rows of a vocabulary, the last ones less
};

// A typed value of an entry; `kind` is WEFT_KIND_*.
struct Attribute {
  std::string key;
  uint32_t kind = WEFT_KIND_NONE;
  int64_t integer = 0;  // BOOL and INT
  double real = 0;      // FLOAT
  std::string text;     // TEXT and JSON
  bool operator==(const Attribute&) const = default;
};

// A parameter and what each rank keeps of it.
struct PlannedParameter {
  std::string name;            // "weight"
  std::vector<int64_t> shape;  // whole
  // By the rank's place along `partition_axes` (of an operation: its rank on the tensor axis); empty: every
  // rank keeps all of it. A cut may be empty, for a parameter that lives on other ranks.
  std::vector<Cut> cuts;
  Axes partition_axes = 0;             // over which ranks keep different parts
  Axes gradient_axes = sample_axes();  // over which its gradient is summed, but for partition_axes

  // The shape of the part at a place along `partition_axes`.
  std::vector<int64_t> local(uint32_t place) const { return cuts.empty() ? shape : cuts[place].local(); }
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
