#include "schedule/transfer_order.hpp"

namespace weft::pipeline {

TransferOrder::TransferOrder(const Schedule& schedule)
    : boundaries_(schedule.virtual_stages() - 1), places_(size_t{schedule.micro_batches} * boundaries_ * 2) {
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    const std::vector<Operation>& operations = schedule.operations[stage];
    for (size_t place = 0; place < operations.size(); ++place) {
      if (const auto sent = send_of(schedule, stage, operations[place])) places_[index(*sent)].sent = place;
      if (const auto awaited = receive_of(schedule, stage, operations[place]))
        places_[index(*awaited)].awaited = place;
    }
  }
}

}  // namespace weft::pipeline
