// How sequences are shared out, from the options that users give.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace weft {

struct SequenceOptions {
  bool enable_sequence_parallelism = false;
  std::string sequence_parallelism_mode;  // empty: all_to_all
  int64_t sp_size = 1;
  int64_t inner_ring_size = 0;  // 0: all ranks
  bool enable_sequence_overlap = false;
};

// Puts them into `sizes`, whose tensor axis is known. Throws INVALID_ARGUMENT naming what does not go
// together.
void set_sequence_mode(const SequenceOptions& options, plan::ParallelSizes& sizes);

}  // namespace weft
