// A model of one stack of blocks over one sequence: a decoder alone, or an encoder alone. Its blocks decide
// which positions attend to which.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/composed_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::nn {

// A family derives its model from it, makes its modules in base() and calls assemble().
class StackModel : public ComposedModel {
 public:
  State input(const Batch& batch) const override;
  std::vector<SequenceLength> lengths(const Batch& batch) const override;
  std::optional<Batch> example(int64_t samples, int64_t positions) const override;

 protected:
  using ComposedModel::ComposedModel;
  // The units in order: `prologue` makes kHidden (N, T, C) of the inputs' fields, each block replaces it, and
  // the epilogue applies `last` and the head. Between the last block and `last` stands an Identity
  // "stream_end", where a plan may end what it split along the sequence.
  void assemble(std::unique_ptr<Inputs> inputs, std::unique_ptr<Unit> prologue,
                std::vector<std::unique_ptr<Unit>> blocks, LastLayers last, std::unique_ptr<Head> head);

  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;
  size_t last_reader(std::string_view field) const override;
  std::vector<int64_t> head_positions(const Batch& batch) const override;

 private:
  std::unique_ptr<Inputs> inputs_;
};

// The same over tokens.
class TokenStackModel : public StackModel, public TokenModel {
 public:
  std::vector<Vocabulary> vocabularies() const override;
  int64_t max_sequence_length() const override { return tokens_.positions; }

 protected:
  // `tokens`: choices and dtype follow from the head and the traits.
  TokenStackModel(const Config& config, ModelTraits traits, TokenOptions tokens);
  void assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks, LastLayers last,
                std::unique_ptr<Head> head);

 private:
  TokenOptions tokens_;
};

}  // namespace weft::nn
