// A model whose parameters are divided in ways that no shipped plan uses yet: a weight in blocks of rows and
// columns, and experts that live on some ranks only.
#pragma once

#include <weft/nn/model.hpp>

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "training/training.hpp"

namespace weft::test {

// Batches of B samples: x (B, 8), route (B) int64 below kExperts, target (B, 6). y = (x W + b) E[route].
class BlocksModel final : public nn::Model {
 public:
  static constexpr int64_t kInputs = 8, kHidden = 12, kOutputs = 6, kExperts = 4;

  BlocksModel();

  std::string architecture() const override { return "BlocksModel"; }
  std::vector<nn::Unit*> units() override;
  State input(const Batch& batch) const override;
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<nn::LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override { return {{"y", last.at("y")}}; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override;
  nn::Initial initial(std::string_view) const override { return nn::Initial::normal(0, 0.5); }

  // Says how the ranks of a training divide the parameters; experts lie along `expert_axes`.
  void divide(Training& training, Axes expert_axes);

 private:
  struct Weights;
  class BlockUnit;
  class ExpertUnit;

  std::shared_ptr<Weights> block_;
  std::vector<std::shared_ptr<Weights>> experts_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
  Cut cut_;                             // of the block's weight
  Communicator tensor_, same_experts_;  // null: one rank
};

// The plan of a mesh: blocks over the tensor axis, whose rows are in two runs each, and whole experts over
// `expert_axes`.
plan::Plan blocks_plan(const Mesh& mesh, Axes expert_axes);

Batch blocks_batch(int64_t samples, int64_t seed);

}  // namespace weft::test
