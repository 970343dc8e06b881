// What the functions that run a boosted model have in common.
#pragma once

#include <string>
#include <vector>

#include "training/training.hpp"
#include "weft/model.hpp"

namespace weft {

// Returns the training of a model. Throws FAILED_PRECONDITION if it is not boosted.
Training& training_of(const Model& model);

// Puts the model in evaluation mode while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Model& model) : model_(model), was_training_(model.is_training()) {
    model_.train(false);
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;

 private:
  nn::Model& model_;
  bool was_training_;
};

// Splits this rank's part of a batch into micro-batches by `accumulate` and the options of the pipeline, as
// many as on the ranks with other samples. Collective.
std::vector<Batch> micro_batches_of(const Batch& batch, int64_t accumulate, Bindings& bindings);

// Returns the loss of a step, the same on every rank. Collective.
double global_loss(const Bindings& bindings, Training::StepLoss loss);

// Throws INVALID_ARGUMENT, because `loss`, "a criterion" or "the objective NAME", cannot be computed from a
// part of the logits.
[[noreturn]] void refuse_criterion(const std::string& loss, uint32_t tensor_size, uint32_t sequence_size);
// Throws INVALID_ARGUMENT, because a criterion is given beside an objective of a library.
[[noreturn]] void refuse_two_losses(const std::string& objective);

}  // namespace weft
