// What streams send for tensor-parallel regions in more than one mode.
#pragma once

#include "sequence_modes/sequence_mode.hpp"

namespace weft::sequence_modes {

// Every tensor-parallel rank has the same positions.
inline plan::RegionTraffic same_positions() {
  using enum plan::Message::Pass;
  using enum plan::Message::Amount;
  using enum plan::Collective;
  const std::vector<plan::Message> enter = {{kBackward, kAllReduce, kRegion}},
                                   leave = {{kForward, kAllReduce, kRegion}};
  return {enter, enter, leave, leave};
}

// Tensor-parallel ranks gather the positions at the beginning of a region and scatter them at its end. The
// input of a linear layer is gathered again in backward.
inline plan::RegionTraffic gathered_positions() {
  using enum plan::Message::Pass;
  using enum plan::Message::Amount;
  using enum plan::Collective;
  const std::vector<plan::Message> leave = {{kForward, kReduceScatter, kPart},
                                            {kBackward, kAllGather, kPart}};
  return {.enter = {{kForward, kAllGather, kPart}, {kBackward, kReduceScatter, kPart}},
          .enter_linear = {{kForward, kAllGather, kPart},
                           {kBackward, kAllGather, kPart},
                           {kBackward, kReduceScatter, kPart}},
          .leave = leave,
          .leave_linear = leave};
}

}  // namespace weft::sequence_modes
