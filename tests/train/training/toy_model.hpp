// A small model with everything that training must handle: a parameter tied between the first and the
// last unit, one that only some samples use, a unit that a batch may skip, integer fields between units, a
// buffer, dropout, frozen units, auxiliary losses. Batches: B samples, T positions. Config keys: vocab,
// width, blocks, dropout, frozen (how many units from the first on; the tied parameter with them), gated
// (default true), balance (the weight with which every block adds the square of what it gives as an auxiliary
// loss "balance").
#pragma once

#include <weft/nn/layers.hpp>
#include <weft/nn/model.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::test {

class ToyModel final : public nn::Model {
 public:
  explicit ToyModel(const Config& config, at::ScalarType dtype = at::kFloat);

  std::string architecture() const override { return "ToyModel"; }
  std::vector<nn::Unit*> units() override;
  // ids (B, T) int64; kinds (B, T) int64, where a 1 uses blocks.0.gate; labels (B, T) or none; skip (B)
  // int64: a 1 anywhere makes blocks.1 pass its state through; cut (B) int64: a 1 anywhere makes blocks.1
  // take its input as a constant.
  State input(const Batch& batch) const override;
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<nn::LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override { return {{"logits", last.at("logits")}}; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<nn::SequenceLength> lengths(const Batch& batch) const override;
  std::vector<nn::Tie> ties() const override { return {{"head.weight", "wte.weight"}}; }
  nn::Initial initial(std::string_view parameter) const override;
  bool frozen(std::string_view parameter) const override;

  // Returns how often the body of each unit ran, with recomputations.
  const std::map<std::string, int>& runs() const { return runs_; }
  // Returns the parameter that blocks.0 multiplies by. It is 1 at the beginning.
  at::Tensor scale() const;
  // Makes a unit change its input in place, which recomputation refuses.
  void spoil_input() { spoils_input_ = true; }

 private:
  struct Block;
  class EmbedUnit;
  class BlockUnit;
  class HeadUnit;

  const int64_t vocab_, width_, frozen_;
  const double balance_;
  const at::ScalarType dtype_;
  bool spoils_input_ = false;
  std::shared_ptr<nn::Embedding> embedding_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<nn::Linear> head_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
  std::map<std::string, int> runs_;
};

// Makes a model with 3 blocks and the configuration `keys`, as members of a JSON object: "\"dropout\": 0.3".
std::shared_ptr<ToyModel> make_toy(const std::string& keys = "", at::ScalarType dtype = at::kFloat);

// Returns random ids, kinds and labels, the same for the same seed. Labels are ignored (-100) for about a
// third of the positions. No kind is 1 unless `gated`.
Batch toy_batch(int64_t samples, int64_t seed, bool gated = true);
// Returns samples [begin, end) of a batch.
Batch part_of(const Batch& batch, int64_t begin, int64_t end);
Batch with(Batch batch, const std::string& field, int64_t value);

}  // namespace weft::test
