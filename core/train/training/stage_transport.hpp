// Moves States and their gradients between pipeline stages during one step. Sends and receives run in the
// background; only `receive`, `wait_for_all_but` and `finish` block.
#pragma once

#include <functional>
#include <vector>

#include "schedule/transfer_order.hpp"
#include "weft/nn/model.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

// A schedule as one stage sees it.
struct StageProgram {
  StageProgram(pipeline::Schedule made, uint32_t own_stage);
  const std::vector<pipeline::Operation>& operations() const { return schedule.operations[stage]; }
  // Returns true if the backwards run in two halves, all of them.
  bool splits_backward() const;

  pipeline::Schedule schedule;
  uint32_t stage;
  pipeline::TransferOrder order;
  std::vector<std::vector<pipeline::Transfer>>
      incoming;  // from each stage, in the order in which it sends them
};

class StageTransport {
 public:
  using Transfer = pipeline::Transfer;
  // Returns the fields that a transfer carries, with the shapes of this rank, in the order in which both
  // sides pass them. Called before the micro-batch's operation.
  using Carried = std::function<const std::vector<nn::FieldShape>&(const Transfer& transfer)>;
  // `stages` are the ranks of the pipeline axis, in the order of the stages. `program` outlives this object.
  StageTransport(Communicator stages, const StageProgram& program, Carried carried);

  // Begins to receive a transfer, unless it has begun, and before it all that its sender sends earlier.
  void expect(const Transfer& transfer);
  // Returns the tensors of a transfer that is expected, by field. Blocks until they are here. Throws
  // UNAVAILABLE naming the transfer and the stage if that is gone.
  State receive(const Transfer& transfer);
  // Begins to send contiguous tensors, one for each field that the transfer carries. Keeps them until they
  // have arrived.
  void send(const Transfer& transfer, State tensors);
  // Blocks until all but the last `count` transfers that were sent have arrived.
  void wait_for_all_but(size_t count);
  // Blocks until everything that was sent has arrived.
  void finish() { wait_for_all_but(0); }

 private:
  struct Moving {
    Transfer transfer;
    State tensors;
    std::vector<Work> works;
  };
  void post(const Transfer& transfer);
  void wait(Moving& moving, bool arriving) const;
  void release_arrived(const Transfer& received);

  const Communicator stages_;
  const StageProgram& program_;
  const Carried carried_;
  std::vector<size_t> posted_;    // of the incoming transfers of each stage, how many were begun
  std::vector<Moving> incoming_;  // begun, and not yet returned
  std::vector<Moving> outgoing_;  // begun, and not known to have arrived
};

}  // namespace weft
