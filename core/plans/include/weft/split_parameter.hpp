// Shards a dimension of a parameter over the ranks of the tensor axis, for Operation::cut.
#pragma once

#include <cstdint>
#include <string>

#include "weft/macros.h"
#include "weft/plan.hpp"

namespace weft::plan {

// How one dimension is sharded. The dimension may hold several fused parts (queries, keys and values), each
// of which is sharded separately.
struct SplitRule {
  int64_t dim = -1;
  int64_t parts = 1;         // number of fused parts
  int64_t heads = 0;         // heads of the first part, which are never cut; 0 shards single elements
  int64_t key_heads = 0;     // heads of every other part; 0 means as many as the first part has
  bool interleaved = false;  // the parts alternate by groups of heads instead of lying one after the other
  bool equal = true;         // all ranks must get equal shards; false allows a vocabulary's uneven ones
};

// Fills the cuts of `parameter` by the rule. Returns an error text, empty on success: what `problems` of
// Operation::cut get.
WEFT_EXPORT std::string split_parameter(PlannedParameter& parameter, const SplitRule& rule,
                                        const ParallelSizes& sizes);

// Returns an error text if members of the rule contradict each other, otherwise an empty one.
WEFT_EXPORT std::string contradiction(const SplitRule& rule);

}  // namespace weft::plan
