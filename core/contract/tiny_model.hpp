// The model that strategies train: a tied parameter, a frozen one in a unit of its own, one of a single
// element, sizes that no number of ranks divides, and labels that only some positions have. It shows what its
// layers compute with.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/layers.hpp"
#include "weft/nn/model.hpp"

namespace weft::contract {

class TinyModel final : public nn::Model {
 public:
  explicit TinyModel(at::ScalarType dtype);

  std::string architecture() const override { return "TinyModel"; }
  std::vector<nn::Unit*> units() override;
  // ids, labels: (B, T), int64
  State input(const Batch& batch) const override;
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<nn::LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override { return {{"logits", last.at("logits")}}; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<nn::SequenceLength> lengths(const Batch& batch) const override;
  std::vector<nn::Tie> ties() const override { return {{"head.weight", "wte.weight"}}; }
  nn::Initial initial(std::string_view parameter) const override;
  bool frozen(std::string_view parameter) const override { return parameter == "shift.value"; }

  // Returns copies in fp64, by name, of the values with which the units that ran since the last call
  // computed.
  std::map<std::string, at::Tensor> take_seen();

 private:
  struct Shift;
  struct Block;
  void see(const std::string& prefix, const torch::nn::Module& module);

  const at::ScalarType dtype_;
  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<Shift> shift_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<nn::Linear> head_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
  std::map<std::string, at::Tensor> seen_;
};

// Returns the global batch of a step: ids and labels, the same for the same step. The labels that count are
// many in the first samples and few in the last ones, so that ranks and micro-batches differ.
Batch tiny_batch(int64_t step);

}  // namespace weft::contract
