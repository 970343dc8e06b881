// Checks a loss of a library by itself, on outputs of a model: sums, gradients and refusals.
#pragma once

#include <string>

#include "contract/checks.hpp"
#include "training/chosen_loss.hpp"

namespace weft::contract {

// A loss with outputs in fp64, without graph, and the batch that they were computed from.
struct LossTrial {
  const ChosenLoss& loss;
  State outputs;
  Batch batch;
};

// Whether a field has labels, of which the value -100 does not count.
bool is_label(const std::string& name, const at::Tensor& tensor);

// Looks at each rule for losses.
void check_loss_parts(const LossTrial& trial, Findings& findings);

}  // namespace weft::contract
