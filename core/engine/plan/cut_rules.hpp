// How the dimension of a parameter is split over the ranks of the tensor axis.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace weft::plan {

struct SplitRule {
  int64_t dim = -1;
  int64_t parts = 1;         // each split by itself
  int64_t heads = 0;         // of the first part, which stay whole; 0: elements
  int64_t key_heads = 0;     // of every other part; 0: as many
  bool interleaved = false;  // group by group: heads of the first part, then those of the others
  bool equal = true;         // the ranks' parts
};

// Splits a parameter along the rule's dimension over the tensor axis. Returns what does not fit, empty if all
// does.
std::string split_parameter(PlannedParameter& parameter, const SplitRule& rule, const ParallelSizes& sizes);

// Returns which parts of the rule contradict each other, empty if none do.
std::string contradiction(const SplitRule& rule);

// "1 and 3": the divisors of `value` next to `size`.
std::string nearest_divisors(int64_t value, int64_t size);

}  // namespace weft::plan
