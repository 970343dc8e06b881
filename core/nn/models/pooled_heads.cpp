#include "weft/nn/pooled_heads.hpp"

#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "models/row_label_head.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::nn {

Pooler::Pooler(int64_t in, int64_t out, std::string_view activation, at::ScalarType dtype)
    : activation_(nn::activation(activation)) {
  dense = register_module("dense", std::make_shared<Linear>(in, out, true, dtype));
}

at::Tensor Pooler::operator()(const at::Tensor& x) const {
  return activation_((*dense)(x.select(1, 0)));
}

namespace {

class PooledBaseHead final : public Head {
 public:
  explicit PooledBaseHead(std::shared_ptr<Pooler> pooler) : pooler_(std::move(pooler)) {}
  std::vector<torch::nn::Module*> modules() const override { return {pooler_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor hidden = finish(take(state, kHidden));
    state.set("last_hidden_state", hidden);
    state.set("pooler_output", (*pooler_)(hidden));
  }

 private:
  const std::shared_ptr<Pooler> pooler_;
};

// The layers that both classifiers have: a linear layer of the pooled vectors, after dropout.
class PooledLinear {
 public:
  PooledLinear(torch::nn::Module& model, std::shared_ptr<Pooler> pooler, int64_t channels, int64_t out,
               double dropout, at::ScalarType dtype)
      : pooler_(std::move(pooler)) {
    dropout_ = model.register_module("dropout", std::make_shared<Dropout>(dropout));
    classifier_ = model.register_module("classifier", std::make_shared<Linear>(channels, out, true, dtype));
  }
  std::vector<torch::nn::Module*> modules() const {
    return {pooler_.get(), dropout_.get(), classifier_.get()};
  }
  // Removes kHidden from `state` and returns (N, out).
  at::Tensor operator()(const Head::Finish& finish, State& state) const {
    return (*classifier_)((*dropout_)((*pooler_)(finish(take(state, kHidden)))));
  }

 private:
  const std::shared_ptr<Pooler> pooler_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> classifier_;
};

class PooledClassifier final : public Head {
 public:
  PooledClassifier(const Labels& labels, PooledLinear linear) : labels_(labels), linear_(std::move(linear)) {}

  std::vector<std::string> fields() const override { return {kLabels, kClassWeights}; }
  Labelled labelled() const override { return Labelled::kSamples; }
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State&) const override {
    labels_.check(batch, positions[0]);
  }
  std::vector<torch::nn::Module*> modules() const override { return linear_.modules(); }
  void forward(const Finish& finish, State& state) const override {
    state.set(kLogits, linear_(finish, state));
  }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    return labels_.loss(outputs.at(kLogits), batch);
  }
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    return labels_.counts(batch);
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    return labels_.metrics(outputs.at(kLogits), batch);
  }

 private:
  const ClassLabels labels_;
  const PooledLinear linear_;
};

class ChoiceClassifier final : public RowLabelHead {
 public:
  explicit ChoiceClassifier(PooledLinear linear) : linear_(std::move(linear)) {}

  bool has_choices() const override { return true; }
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    if (positions.size() != 3)
      batch.refuse(kInputIds, fmt::format("its shape is {}, must be (samples, choices, positions)",
                                          shape_text(positions)));
    state.set(kChoices, at::zeros({positions[0], positions[1]}, at::kLong));
    if (!batch.has(kLabels)) return;
    batch.require_shape(kLabels, {{positions[0]}});
    batch.require_range(kLabels, positions[1], true);
  }
  std::vector<torch::nn::Module*> modules() const override { return linear_.modules(); }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor choices = take(state, kChoices);
    state.set(kLogits, linear_(finish, state).view(choices.sizes()));
  }

 private:
  static constexpr const char* kChoices = "choices";  // (B, choices), of which only the shape is read

  const PooledLinear linear_;
};

}  // namespace

std::unique_ptr<Head> make_pooled_base_head(std::shared_ptr<Pooler> pooler) {
  return std::make_unique<PooledBaseHead>(std::move(pooler));
}

std::unique_ptr<Head> make_pooled_classifier(torch::nn::Module& model, std::shared_ptr<Pooler> pooler,
                                             int64_t channels, const Labels& labels, double dropout,
                                             at::ScalarType dtype) {
  return std::make_unique<PooledClassifier>(
      labels, PooledLinear(model, std::move(pooler), channels, labels.count, dropout, dtype));
}

std::unique_ptr<Head> make_choice_classifier(torch::nn::Module& model, std::shared_ptr<Pooler> pooler,
                                             int64_t channels, double dropout, at::ScalarType dtype) {
  return std::make_unique<ChoiceClassifier>(
      PooledLinear(model, std::move(pooler), channels, 1, dropout, dtype));
}

}  // namespace weft::nn
