// Split over the tensor-parallel ranks between regions.
#include "sequence_modes/regions.hpp"

namespace weft::sequence_modes {

plan::SequenceMode split_gather() {
  return {.name = "split_gather",
          .axis = plan::SequenceMode::Axis::kTensor,
          .takes_overlap = true,
          .regions = gathered_positions()};
}

}  // namespace weft::sequence_modes
