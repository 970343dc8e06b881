// The T5 classes of Hugging Face as Weft models: an encoder, a decoder unless the class has none, and what
// stands behind the last of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stack.hpp"
#include "weft/nn/head.hpp"
#include "weft/nn/model.hpp"

namespace weft::t5 {

// What a head is made of. `model` is where it registers its modules.
struct HeadSetting {
  torch::nn::Module& model;
  const nn::Embedding& shared;
  const T5Config& config;
  at::ScalarType dtype;
};

struct Architecture {
  std::string_view name;    // "T5ForConditionalGeneration"
  std::string_view prefix;  // of the names of the base model's parameters: "transformer." or nothing
  bool has_decoder;
  std::unique_ptr<nn::Head> (*make_head)(const HeadSetting& setting);
};

class T5Model final : public nn::Model {
 public:
  T5Model(const Config& config, const Architecture& architecture, at::ScalarType dtype);

  std::string architecture() const override { return std::string(architecture_.name); }
  std::string base_prefix() const override { return std::string(architecture_.prefix); }
  std::vector<nn::Unit*> units() override;

  // input_ids (N, S) int64 or int32; attention_mask of that shape, 1 or 0. With a decoder decoder_input_ids
  // (N, T) and decoder_attention_mask of that shape; T5ForConditionalGeneration makes decoder_input_ids of
  // labels where there are none. labels: as the last stack's ids, -100 where they do not count.
  State input(const Batch& batch) const override;
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override;
  std::vector<nn::LossCount> counts(const Batch& batch) const override;
  State outputs(const State& last) const override;
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override;
  std::vector<nn::SequenceLength> lengths(const Batch& batch) const override;

  std::vector<nn::Tie> ties() const override;
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;
  int64_t vocabulary_size() const override { return t5_.vocab_size; }

 private:
  at::Tensor token_ids(const nn::BatchFields& batch, const char* name) const;
  at::Tensor decoder_ids(const nn::BatchFields& batch) const;
  at::Tensor shifted_right(const at::Tensor& labels) const;

  const T5Config t5_;
  const Architecture& architecture_;
  const at::ScalarType dtype_;
  std::shared_ptr<nn::Embedding> shared_;
  std::unique_ptr<Stack> encoder_, decoder_;  // the decoder may be null
  std::unique_ptr<nn::Head> head_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
};

// The class of that name on the meta device. Throws NOT_FOUND naming the four.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::t5
