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
  size_t sent_at(const Transfer& transfer) const { return places_[index(transfer)].sent; }
  size_t awaited_at(const Transfer& transfer) const { return places_[index(transfer)].awaited; }

  // Returns whether the arrival of `received` proves that `sent`, which this stage sent to the same stage,
  // has arrived there: the other stage had to wait for it before it could send `received`. The memory of
  // `sent` can be reused then, without asking the network.
  bool proves(const Transfer& received, const Transfer& sent) const {
    return received.from == sent.to && received.to == sent.from && awaited_at(sent) <= sent_at(received);
  }

 private:
  struct Places {
    size_t sent = 0, awaited = 0;
  };
  size_t index(const Transfer& transfer) const {
    const size_t content = transfer.content == Transfer::Content::gradients ? 1 : 0;
    return (size_t{transfer.micro_batch} * boundaries_ + transfer.boundary) * 2 + content;
  }

  size_t boundaries_;
  std::vector<Places> places_;
};

}  // namespace weft::pipeline
