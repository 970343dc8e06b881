// One step over micro-batches while it runs: what weft_step is.
#pragma once

#include "training/forward_record.hpp"
#include "training/training.hpp"

struct weft_step {
  weft::Training* owner = nullptr;
  bool training = true;
  bool synchronise_last = true;  // the last micro-batch synchronises
  std::vector<weft::Batch> batches;
  std::vector<std::shared_ptr<weft::ForwardRecord>> records;  // of each micro-batch
  std::vector<at::Tensor> losses;                             // scaled, awaiting backward
  weft::Training::Criterion criterion;

  std::vector<std::string> names;   // of the loss terms
  std::vector<double> scales;       // weight over global count
  std::vector<double> parts;        // of the loss, this rank's
  std::vector<weft::Training::Forward> forwards;  // of evaluation
};
