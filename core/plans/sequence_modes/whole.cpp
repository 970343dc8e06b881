// Every rank has all positions.
#include "sequence_modes/regions.hpp"

namespace weft::sequence_modes {

plan::SequenceMode whole() {
  return {.name = "whole", .regions = same_positions()};
}

}  // namespace weft::sequence_modes
