// One step over micro-batches while it runs: what weft_step is.
#pragma once

#include "training/forward_record.hpp"
#include "training/training.hpp"

namespace weft {

// What goes forward in one piece and backward in one call: units after each other on one state. A schedule
// with several stages on this rank has several for one micro-batch; the last to go forward is the first to go
// backward.
struct Piece {
  const weft_state* state;
  uint32_t next_unit;
  std::shared_ptr<ForwardRecord> record;
  at::Tensor auxiliary;  // the auxiliary losses of its units, scaled; undefined if there are none
};

struct MicroBatch {
  Batch batch;
  std::shared_ptr<nn::ForwardContext> context;
  std::vector<Piece> pieces;  // awaiting backward
  uint32_t forwards = 0;      // of units
  at::Tensor loss;            // scaled, awaiting backward
  bool finished = false;
  bool backward_begun = false;
  std::vector<nn::AuxiliaryLoss> auxiliary;  // of evaluation
};

}  // namespace weft

struct weft_step {
  weft::Training* owner = nullptr;
  bool training = true;
  bool synchronise_last = true;  // the last backward of all synchronises
  std::vector<weft::MicroBatch> micro;
  weft::Training::Criterion criterion;

  std::vector<std::string> names;  // of the loss terms; after the model's, the auxiliary ones
  std::vector<double> scales;      // of the model's terms: one over the global count
  std::vector<double> positions;   // of each sequence in the global batch; none with a criterion
  std::vector<double> parts;       // of the loss, this rank's
  std::vector<weft::Training::Forward> forwards;  // of evaluation
};
