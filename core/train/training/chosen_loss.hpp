// The loss of a library of objectives, checked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/define_objective.hpp"

namespace weft {

// A loss in place of the model's own. Its functions do what those of TrainingLoss do. What the library throws
// gets the name of the objective in front.
class ChosenLoss {
 public:
  ChosenLoss() = default;  // none: the model's own loss
  // `identity` has the name and all options.
  ChosenLoss(std::string name, std::string identity, std::shared_ptr<const TrainingLoss> loss)
      : name_(std::move(name)), identity_(std::move(identity)), loss_(std::move(loss)) {}

  explicit operator bool() const { return loss_ != nullptr; }
  const std::string& name() const { return name_; }
  // Empty without a loss.
  const std::string& identity() const { return identity_; }
  const TrainingLoss& library() const { return *loss_; }

  // Throws FAILED_PRECONDITION for a count that is negative or not finite.
  std::vector<nn::LossCount> counts(const Batch& batch) const;
  // Throws FAILED_PRECONDITION if the terms are not those of `counts`, one of them is no sum, or the library
  // has changed an output or a field of the batch in place; while gradients are enabled, also if it returns a
  // term without a gradient.
  std::vector<nn::LossTerm> terms(const State& outputs, const Batch& batch,
                                  const std::vector<nn::LossCount>& counts) const;

 private:
  std::string name_, identity_;
  std::shared_ptr<const TrainingLoss> loss_;
};

}  // namespace weft
