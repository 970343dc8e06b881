// Where the transfers of a schedule lie in the orders of the stages that send and receive them. Needs no
// libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft::pipeline {

class TransferOrder {
 public:
  // The schedule is one that `check` accepts.
  explicit TransferOrder(const Schedule& schedule);

  // Return the place of the operation that sends a transfer in the list of its stage, and of the one that
  // waits for it in the list of the other stage.
  size_t sent_at(const Transfer& transfer) const {
    return places_[index(transfer.content, transfer.micro_batch,
                         transfer.boundary + (transfer.content == Content::gradients ? 1 : 0))];
  }
  size_t awaited_at(const Transfer& transfer) const {
    return places_[index(transfer.content, transfer.micro_batch,
                         transfer.boundary + (transfer.content == Content::state ? 1 : 0))];
  }

  // Returns whether the arrival of `received` proves that `sent`, which the receiving stage sent earlier, has
  // arrived: on its way here the micro-batch of `received` has passed the stage that `sent` went to, in the
  // operation that waited for `sent` or in a later one. The memory of `sent` can be reused then, without
  // asking the network.
  bool proves(const Transfer& received, const Transfer& sent) const;

 private:
  using Content = Transfer::Content;
  // Of the forward (state) or backward (gradients) of a micro-batch at a virtual stage.
  size_t index(Content content, uint32_t micro_batch, uint32_t virtual_stage) const {
    const size_t row = size_t{2} * micro_batch + (content == Content::gradients ? 1 : 0);
    return row * shape_.virtual_stages() + virtual_stage;
  }

  Schedule shape_;              // without its operations
  std::vector<size_t> places_;  // in the list of the stage
};

}  // namespace weft::pipeline
