// The base of models with one stack of blocks over one sequence: decoder-only and encoder-only models. The
// blocks decide which positions attend to which.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/composed_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::nn {

// A model with one stack of blocks. A family derives its model from this class, creates its modules in
// base(), and calls assemble() at the end of its constructor.
class StackModel : public ComposedModel {
 public:
  State input(const Batch& batch) const override;
  std::vector<SequenceLength> lengths(const Batch& batch) const override;
  std::optional<Batch> example(int64_t samples, int64_t positions) const override;

 protected:
  using ComposedModel::ComposedModel;
  // Creates the units, in this order: `prologue` computes kHidden (N, T, C) from the fields of `inputs`, each
  // block replaces kHidden, and the epilogue applies `last` and then `head`. Registers an Identity
  // "stream_end" in base() between the last block and `last`, where a plan can gather a residual stream that
  // is split along the sequence.
  void assemble(std::unique_ptr<Inputs> inputs, std::unique_ptr<Unit> prologue,
                std::vector<std::unique_ptr<Unit>> blocks, LastLayers last, std::unique_ptr<Head> head);

  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;
  size_t last_reader(std::string_view field) const override;
  std::vector<int64_t> head_positions(const Batch& batch) const override;

 private:
  std::unique_ptr<Inputs> inputs_;
};

// Replace kHidden by what a block returns for it, of blocks that take the attention mask, and of those that
// take the position ids before it. Both may be undefined.
template <class Block>
void run_masked(const Block& block, State& state) {
  const at::Tensor mask = find_or_undefined(state, kAttentionMask);
  state.set(kHidden, block(state.at(kHidden), mask));
}
template <class Block>
void run_placed(const Block& block, State& state) {
  const at::Tensor positions = find_or_undefined(state, kPositions),
                   mask = find_or_undefined(state, kAttentionMask);
  state.set(kHidden, block(state.at(kHidden), positions, mask));
}

// A StackModel whose input is a sequence of tokens.
class TokenStackModel : public StackModel, public TokenModel {
 public:
  std::vector<Vocabulary> vocabularies() const override;
  int64_t max_sequence_length() const override { return tokens_.positions; }
  bool reads_positions() const override { return tokens_.position_ids; }
  bool separates_documents() const override { return tokens_.packs; }
  bool positions_mark_documents() const override {
    return tokens_.packs && tokens_.position_ids && tokens_.positions_mark_documents;
  }
  std::optional<Decoding> decoding() const override;
  // Returns the head's, without causal_lm if positions see later tokens (continues_text() is false).
  std::vector<Objective> objectives() const override;

 protected:
  // Sets TokenOptions::dtype from `traits`; assemble() sets TokenOptions::choices from the head.
  TokenStackModel(const Config& config, ModelTraits traits, TokenOptions tokens);
  void assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks, LastLayers last,
                std::unique_ptr<Head> head);

 private:
  TokenOptions tokens_;
};

}  // namespace weft::nn
