// What ring attention computes in one of its steps.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/attention.hpp"
#include "streams/positions.hpp"

namespace weft::parallel {

// Attention of some of this rank's queries to some keys of another rank, in some of the rows. Queries and
// keys are ranges of the positions that their ranks have.
struct RingPart {
  Run rows, queries, keys;
  bool causal = false;  // query i attends to keys 0 ... i
};

// What the parts of all steps have in common.
struct RingShape {
  int64_t rows = 0, total = 0, total_keys = 0;  // total: positions of all ranks
  bool causal = false;
  int64_t window = 0;                         // nn::AttentionOptions::window
  std::vector<kernels::AttentionSpan> spans;  // the documents of all rows; empty: each row is one
};

// Returns the parts of the step with the keys of `rank`. They leave out the keys that no query may attend to:
// later ones, those before the window, and those of other documents.
std::vector<RingPart> ring_parts(const Positions& positions, int rank, const RingShape& shape);

}  // namespace weft::parallel
