// Reads the options of sequence parallelism.
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

// Checks the options and sets the sequence mode in `sizes`, whose tensor size is already set. Throws
// INVALID_ARGUMENT naming the options that do not fit together.
void set_sequence_mode(const SequenceOptions& options, plan::ParallelSizes& sizes);

}  // namespace weft
