// A decoder of tokens in units: a prologue (the embeddings), blocks, and an epilogue with the base model's
// last norm and a head. A family derives its model from it, makes its modules in base() and calls assemble().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/unit.hpp"

namespace weft::nn {

struct DecoderTraits {
  std::string architecture;   // of the class, as in config.json's "architectures"
  std::string prefix;         // of the names of the base model's parameters: "transformer." or nothing
  int64_t channels;           // of kHidden
  int64_t vocabulary;         // of input_ids
  int64_t positions;          // the longest sequence
  std::string positions_key;  // of it in config.json
  bool token_types = false;   // takes token_type_ids
  // Sequences packed into one row are told by position_ids that start again; as in Hugging Face only where no
  // attention mask is given, and no cache ("use_cache") asked for.
  bool packs = false;
  bool blocks_need_positions = false;  // position_ids travel on to the blocks
  at::ScalarType dtype;
};

class DecoderModel : public Model {
 public:
  std::string architecture() const override { return traits_.architecture; }
  std::string base_prefix() const override { return traits_.prefix; }
  std::vector<Unit*> units() override;

  // input_ids (B, T) int64 or int32; attention_mask of that shape, 1 or 0; token_type_ids of that shape;
  // position_ids (B, T) or (1, T); and the labels of the class. Where a class has choices, (B, choices, T)
  // for (B, T).
  State input(const Batch& batch) const override;
  std::vector<LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override { return last; }
  std::vector<FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<SequenceLength> lengths(const Batch& batch) const override;

  std::vector<Tie> ties() const override { return head_->ties(); }
  int64_t max_sequence_length() const override { return traits_.positions; }
  int64_t vocabulary_size() const override { return traits_.vocabulary; }

 protected:
  DecoderModel(const Config& config, DecoderTraits traits);
  // Where the base model's modules are registered: the module that the prefix names, or this.
  torch::nn::Module& base() { return *base_; }
  // `norm`: applied to the hidden states after the last block. Before it stands an Identity "stream_end",
  // where a plan may end what it split along the sequence.
  template <class Norm>
  void assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks, Norm& norm,
                std::unique_ptr<Head> head) {
    assemble(
        std::move(prologue), std::move(blocks), norm, [&norm](const at::Tensor& x) { return norm(x); },
        std::move(head));
  }

 private:
  void assemble(std::unique_ptr<Unit> prologue, std::vector<std::unique_ptr<Unit>> blocks,
                torch::nn::Module& norm, Head::Finish finish, std::unique_ptr<Head> head);
  at::Tensor token_ids(const BatchFields& batch) const;
  at::Tensor position_ids(const BatchFields& batch, const at::Tensor& ids) const;

  const DecoderTraits traits_;
  torch::nn::Module* base_ = this;
  std::unique_ptr<Head> head_;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace weft::nn
