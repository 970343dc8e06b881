// The GPT-2 classes of Hugging Face as Weft models: a trunk and a head.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "head.hpp"
#include "trunk.hpp"
#include "weft/nn/model.hpp"

namespace weft::gpt2 {

class Gpt2Model final : public nn::Model {
 public:
  Gpt2Model(const Config& config, const Architecture& architecture, at::ScalarType dtype);

  std::string architecture() const override { return std::string(architecture_.name); }
  std::string base_prefix() const override { return std::string(architecture_.prefix); }
  std::vector<nn::Unit*> units() override;

  // input_ids (B, T) int64 or int32; attention_mask of that shape, 1 or 0; token_type_ids of that shape;
  // position_ids (B, T) or (1, T); and the labels of the class. Where a class has choices, (B, choices, T)
  // for (B, T).
  State input(const Batch& batch) const override;
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<nn::LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override;
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override;

  std::vector<nn::Tie> ties() const override { return head_->ties(); }
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;
  int64_t max_sequence_length() const override { return gpt2_.n_positions; }
  int64_t vocabulary_size() const override { return gpt2_.vocab_size; }

 private:
  at::Tensor token_ids(const BatchFields& batch) const;
  at::Tensor position_ids(const BatchFields& batch, const at::Tensor& ids) const;
  at::Tensor attention_mask(const BatchFields& batch, const at::Tensor& ids) const;
  at::Tensor packing_mask(const at::Tensor& positions, int64_t rows) const;

  const Gpt2Config gpt2_;
  const Architecture& architecture_;
  const at::ScalarType dtype_;
  std::unique_ptr<Trunk> trunk_;
  std::unique_ptr<Head> head_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
};

// The class of that name. Throws NOT_FOUND naming the six.
const Architecture& find_architecture(std::string_view name);

}  // namespace weft::gpt2
