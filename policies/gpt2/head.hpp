// What tells the GPT-2 classes apart: the modules after the blocks, the outputs, the labels and the loss.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "batch_fields.hpp"
#include "trunk.hpp"
#include "weft/nn/model.hpp"

namespace weft::gpt2 {

class Head {
 public:
  virtual ~Head() = default;

  // Inputs and labels of this class, beside those of all.
  virtual std::vector<std::string> fields() const { return {}; }
  // True if input_ids may be (B, choices, T).
  virtual bool has_choices() const { return false; }
  // Checks them and adds what forward needs to `state`, to travel through all units. `ids`: input_ids, int64,
  // as given.
  virtual void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const {}
  // What epilogue uses, beside the last layer norm.
  virtual std::vector<torch::nn::Module*> modules() const { return {}; }
  // Takes `kHidden` and what prepare() added from `state`, and puts the outputs there.
  virtual void forward(const nn::LayerNorm& ln_f, State& state) const = 0;
  // Undivided; as nn::Model's, on a batch that prepare() has checked.
  virtual std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const { return {}; }
  virtual std::vector<nn::LossCount> counts(const Batch& batch) const { return {}; }
  virtual std::vector<nn::Tie> ties() const { return {}; }
};

// What a head is made of. `model` is where it registers its modules; `trunk` is already there.
struct HeadSetting {
  torch::nn::Module& model;
  const Trunk& trunk;
  const Gpt2Config& config;
  at::ScalarType dtype;
};

struct Architecture {
  std::string_view name;    // "GPT2LMHeadModel"
  std::string_view prefix;  // of the names of the base model's parameters: "transformer." or nothing
  std::unique_ptr<Head> (*make_head)(const HeadSetting& setting);
};

std::unique_ptr<Head> make_base_head(const HeadSetting& setting);
std::unique_ptr<Head> make_language_head(const HeadSetting& setting);
std::unique_ptr<Head> make_double_heads(const HeadSetting& setting);
std::unique_ptr<Head> make_sequence_classifier(const HeadSetting& setting);
std::unique_ptr<Head> make_token_classifier(const HeadSetting& setting);
std::unique_ptr<Head> make_answer_head(const HeadSetting& setting);

// The labels of next tokens: (..., T) moved one place to the left, the last one ignored.
at::Tensor next_tokens(const at::Tensor& labels);
// x: (..., T, E), positions: (...), one for each -> (..., E)
at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions);

}  // namespace weft::gpt2
