#include "weft/nn/language_head.hpp"

#include <ATen/ops/empty.h>

#include "weft/nn/key_value_cache.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

namespace {

std::shared_ptr<Linear> make_layer(const LanguageHead::Options& options) {
  if (!options.tied)
    return std::make_shared<Linear>(options.channels, options.vocabulary, options.bias, options.dtype);
  const at::Tensor bias =
      options.bias ? at::empty({options.vocabulary}, options.tied->weight.options()) : at::Tensor();
  return std::make_shared<Linear>(options.tied->weight, bias);
}

}  // namespace

LanguageHead::LanguageHead(torch::nn::Module& parent, const Options& options)
    : options_(options), layer_(parent.register_module(options.module, make_layer(options))) {}

void LanguageHead::prepare(const BatchFields& batch, at::IntArrayRef positions, State&) const {
  if (!batch.has(kLabels)) return;
  batch.require_shape(kLabels, {positions.vec()});
  batch.require_range(kLabels, options_.vocabulary, true);
}

void LanguageHead::forward(const Finish& finish, State& state) const {
  const at::Tensor hidden = finish(take(state, kHidden));
  state.set(options_.output, logits(options_.scale == 1 ? hidden : hidden * options_.scale));
}

at::Tensor LanguageHead::logits(const at::Tensor& hidden) const {
  const bool generates = KeyValueCache::current() != nullptr;
  return (*layer_)(generates ? hidden.narrow(-2, hidden.size(-2) - 1, 1) : hidden);
}

at::Tensor LanguageHead::labels_of(const Batch& batch) const {
  const at::Tensor given = batch.at(kLabels).to(at::kLong);
  return options_.shifts ? next_tokens(given) : given;
}

std::vector<LossTerm> LanguageHead::loss(const State& outputs, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  return {{options_.term, 1, cross_entropy_sum(*layer_, outputs.at(options_.output), labels_of(batch))}};
}

std::vector<LossCount> LanguageHead::counts(const Batch& batch, at::IntArrayRef) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  const int64_t first = options_.shifts ? 1 : 0;
  return {{options_.term, RowLabels{labels.slice(-1, first)}.count()}};
}

std::vector<Metric> LanguageHead::metrics(const State& outputs, const Batch& batch) const {
  if (options_.accuracy.empty() || !batch.has(kLabels)) return {};
  const at::Tensor labels = labels_of(batch);
  const double right = layer_->operation->count_right(outputs.at(options_.output), labels, kIgnored);
  return {{options_.accuracy, right, RowLabels{labels}.count()}};
}

std::vector<Objective> LanguageHead::objectives() const {
  return {{options_.shifts ? Objective::Kind::kCausalLm : Objective::Kind::kMaskedLm}};
}

std::vector<Tie> LanguageHead::ties() const {
  if (!options_.tied) return {};
  return {{options_.prefix + options_.module + ".weight", options_.tied_name}};
}

at::Tensor next_tokens(const at::Tensor& labels) {
  at::Tensor moved = labels.roll(-1, -1);
  moved.select(-1, labels.size(-1) - 1).fill_(kIgnored);
  return moved;
}

}  // namespace weft::nn
