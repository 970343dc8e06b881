// As split_gather, but the parts of linear layers travel round a ring while each rank computes.
#include "sequence_modes/regions.hpp"

namespace weft::sequence_modes {

plan::SequenceMode ring() {
  using enum plan::Message::Pass;
  using enum plan::Message::Amount;
  using enum plan::Collective;
  plan::RegionTraffic regions = gathered_positions();
  regions.enter_linear = {
      {kForward, kSend, kAllButNext}, {kBackward, kSend, kAllButNext}, {kBackward, kReduceScatter, kPart}};
  regions.leave_linear = {{kForward, kSend, kAllButOwn}, {kBackward, kSend, kAllButNext}};
  return {.name = "ring", .axis = plan::SequenceMode::Axis::kTensor, .overlaps = true, .regions = regions};
}

}  // namespace weft::sequence_modes
