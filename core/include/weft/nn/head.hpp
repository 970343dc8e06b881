// What tells the classes of a model family apart: the modules after the last block, the outputs, the labels
// and the loss. The heads that several families have are here; a family adds its own. Shapes: N rows, T
// positions, C channels.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/nn/batch_fields.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

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
  // What forward uses, beside the last layers of the base model.
  virtual std::vector<torch::nn::Module*> modules() const { return {}; }
  // Takes kHidden and what prepare() added from `state`, and puts the outputs there. `finish`: the last
  // layers of the base model (its norm), which act on each position alone.
  using Finish = std::function<at::Tensor(const at::Tensor&)>;
  virtual void forward(const Finish& finish, State& state) const = 0;
  // Undivided; as Model's, on a batch that prepare() has checked.
  virtual std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const { return {}; }
  virtual std::vector<LossCount> counts(const Batch& batch) const { return {}; }
  virtual std::vector<Tie> ties() const { return {}; }
};

// No head: "last_hidden_state".
std::unique_ptr<Head> make_base_head();

// lm_head: logits of the next token and their cross entropy.
class LanguageHead : public Head {
 public:
  struct Options {
    int64_t channels, vocabulary;
    at::ScalarType dtype;
    // The token embedding and the name of its weight in the model, where lm_head has that weight.
    const Embedding* tied = nullptr;
    std::string tied_name = {};
    const char* term = "loss";
    bool shifts = true;  // position i predicts label i + 1; otherwise label i
    double scale = 1;    // of the hidden states
  };
  // Registers lm_head in `model`.
  LanguageHead(torch::nn::Module& model, const Options& options);

  std::vector<std::string> fields() const override { return {kLabels}; }
  // labels: of the shape of `ids`.
  void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const override;
  std::vector<torch::nn::Module*> modules() const override { return {lm_head_.get()}; }
  void forward(const Finish& finish, State& state) const override;
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override;
  std::vector<LossCount> counts(const Batch& batch) const override;
  std::vector<Tie> ties() const override;

  // (..., C) -> (..., vocabulary)
  at::Tensor logits(const at::Tensor& hidden) const { return (*lm_head_)(hidden); }

 private:
  const Options options_;
  std::shared_ptr<Linear> lm_head_;
};

// What config.json says of the labels that a class gives.
struct Labels {
  int64_t count = 2;
  std::string problem;  // problem_type; empty: by the count and the labels' type
};

// Registers "score", without a bias, in `model`. It classifies the last token of each sequence: the rightmost
// that is not `padding`, whatever the attention mask says; without `padding` a batch may have one row only.
std::unique_ptr<Head> make_sequence_classifier(torch::nn::Module& model, int64_t channels,
                                               const Labels& labels, std::optional<int64_t> padding,
                                               at::ScalarType dtype);

// Registers "dropout" and "classifier" in `model`. It classifies every token.
std::unique_ptr<Head> make_token_classifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                                            double dropout, at::ScalarType dtype);

// The labels of next tokens: (..., T) moved one place to the left, the last one ignored.
at::Tensor next_tokens(const at::Tensor& labels);
// x: (..., T, C), positions: (...), one for each -> (..., C)
at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions);
// The field, which is erased.
at::Tensor take(State& state, std::string_view name);

}  // namespace weft::nn
