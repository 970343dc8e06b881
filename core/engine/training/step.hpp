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
};

struct MicroBatch {
  Batch batch;
  std::vector<Piece> pieces;  // awaiting backward
  uint32_t forwards = 0;      // of units
  at::Tensor loss;            // scaled, awaiting backward
  bool finished = false;
  bool backward_begun = false;
};

}  // namespace weft

struct weft_step {
  weft::Training* owner = nullptr;
  bool training = true;
  bool synchronise_last = true;  // the last backward of all synchronises
  std::vector<weft::MicroBatch> micro;
  weft::Training::Criterion criterion;

  std::vector<std::string> names;                 // of the loss terms
  std::vector<double> scales;                     // weight over global count
  std::vector<double> parts;                      // of the loss, this rank's
  std::vector<weft::Training::Forward> forwards;  // of evaluation
};
