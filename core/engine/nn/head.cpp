// The base head and the one that predicts tokens.
#include "weft/nn/head.hpp"

#include <ATen/ops/gather.h>

#include "base/text.hpp"

namespace weft::nn {

namespace {

constexpr const char* kLogits = "logits";

class BaseHead final : public Head {
 public:
  void forward(const Finish& finish, State& state) const override {
    state.set("last_hidden_state", finish(take(state, kHidden)));
  }
};

}  // namespace

std::unique_ptr<Head> make_base_head() {
  return std::make_unique<BaseHead>();
}

LanguageHead::LanguageHead(torch::nn::Module& model, const Options& options) : options_(options) {
  const auto head =
      options.tied ? std::make_shared<Linear>(options.tied->weight, at::Tensor())
                   : std::make_shared<Linear>(options.channels, options.vocabulary, false, options.dtype);
  lm_head_ = model.register_module("lm_head", head);
}

void LanguageHead::prepare(const BatchFields& batch, const at::Tensor& ids, State&) const {
  if (!batch.has(kLabels)) return;
  batch.require_shape(kLabels, {ids.sizes().vec()});
  batch.require_range(kLabels, options_.vocabulary, true);
}

void LanguageHead::forward(const Finish& finish, State& state) const {
  const at::Tensor hidden = finish(take(state, kHidden));
  state.set(kLogits, logits(options_.scale == 1 ? hidden : hidden * options_.scale));
}

std::vector<LossTerm> LanguageHead::loss(const State& outputs, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor given = batch.at(kLabels).to(at::kLong);
  const at::Tensor labels = options_.shifts ? next_tokens(given) : given;
  return {{options_.term, 1, cross_entropy_sum(*lm_head_, outputs.at(kLogits), labels)}};
}

std::vector<LossCount> LanguageHead::counts(const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  const int64_t first = options_.shifts ? 1 : 0;
  return {{options_.term, count_labels(labels.slice(-1, first))}};
}

std::vector<Tie> LanguageHead::ties() const {
  if (!options_.tied) return {};
  return {{"lm_head.weight", options_.tied_name}};
}

at::Tensor next_tokens(const at::Tensor& labels) {
  at::Tensor moved = labels.roll(-1, -1);
  moved.select(-1, labels.size(-1) - 1).fill_(kIgnored);
  return moved;
}

at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions) {
  std::vector<int64_t> shape = positions.sizes().vec();
  shape.insert(shape.end(), {1, x.size(-1)});
  return x.gather(-2, positions.unsqueeze(-1).unsqueeze(-1).expand(shape)).squeeze(-2);
}

at::Tensor take(State& state, std::string_view name) {
  at::Tensor field = state.at(name);
  state.erase(name);
  return field;
}

}  // namespace weft::nn
