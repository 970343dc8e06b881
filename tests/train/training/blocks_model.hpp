// A model whose parameters are sharded in ways that no shipped plan uses yet: a weight in blocks of rows and
// columns, and experts that live on some ranks only.
#pragma once

#include <weft/nn/model.hpp>

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "training/training.hpp"

namespace weft::test {

// How experts are sharded: each lives on the ranks of one place along `axes`, and the tensor-parallel ranks
// of that place may split its columns.
struct ExpertLayout {
  Axes axes;
  bool splits_columns = false;
};

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

  // Reads from a training how its ranks shard the parameters, for the forward of the units.
  void divide(Bindings& bindings, const ExpertLayout& experts);

 private:
  struct Weights;
  class BlockUnit;
  class ExpertUnit;

  std::shared_ptr<Weights> block_;
  std::vector<std::shared_ptr<Weights>> experts_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
  Cut cut_;  // of the block's weight
  std::vector<Cut> expert_cuts_;
  Communicator tensor_, same_experts_;  // null: one rank
};

// Returns the plan for a mesh: blocks over the tensor axis, whose rows are in two runs each, and experts.
plan::Plan blocks_plan(const Mesh& mesh, const ExpertLayout& experts);

Batch blocks_batch(int64_t samples, int64_t seed);

}  // namespace weft::test
