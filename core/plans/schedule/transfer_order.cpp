#include "schedule/transfer_order.hpp"

namespace weft::pipeline {

TransferOrder::TransferOrder(const Schedule& schedule)
    : shape_{schedule.stages, schedule.micro_batches, schedule.chunks, schedule.placement},
      places_(size_t{2} * schedule.micro_batches * schedule.virtual_stages()) {
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    const std::vector<Operation>& operations = schedule.operations[stage];
    for (size_t place = 0; place < operations.size(); ++place) {
      const auto& [kind, micro_batch, chunk] = operations[place];
      if (kind == Kind::weight_gradient) continue;
      const Content content = kind == Kind::forward ? Content::state : Content::gradients;
      places_[index(content, micro_batch, schedule.virtual_stage(stage, chunk))] = place;
    }
  }
}

bool TransferOrder::proves(const Transfer& received, const Transfer& sent) const {
  if (received.to != sent.from) return false;
  const size_t awaited = awaited_at(sent);
  const auto has_passed = [&](Content content, uint32_t virtual_stage) {
    return places_[index(content, received.micro_batch, virtual_stage)] >= awaited;
  };
  // Gradients have been forward through all virtual stages, and backward through those after the boundary.
  const bool is_back = received.content == Content::gradients;
  for (uint32_t chunk = 0; chunk < shape_.chunks; ++chunk) {
    const uint32_t there = shape_.virtual_stage(sent.to, chunk);
    const bool is_before = there <= received.boundary;
    if ((is_before || is_back) && has_passed(Content::state, there)) return true;
    if (!is_before && is_back && has_passed(Content::gradients, there)) return true;
  }
  return false;
}

}  // namespace weft::pipeline
