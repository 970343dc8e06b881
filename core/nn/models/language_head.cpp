#include "weft/nn/language_head.hpp"

#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "device/tensors.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/key_value_cache.hpp"
#include "weft/nn/row_labels.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::nn {

namespace {

std::shared_ptr<Linear> make_layer(const LanguageHead::Options& options) {
  if (!options.tied)
    return std::make_shared<Linear>(options.channels, options.vocabulary, options.bias, options.dtype);
  const at::Tensor bias =
      options.bias ? at::empty({options.vocabulary}, options.tied->weight.options()) : at::Tensor();
  return std::make_shared<Linear>(options.tied->weight, bias);
}

// Returns the labels (..., T) of a causal model, without those that padding would predict: padding on the
// left has the loss of padding on the right. Label 0 is never predicted.
at::Tensor without_padding(const Batch& batch, const char* field = kLabels) {
  const at::Tensor& labels = batch.at(field);
  const at::Tensor* const mask = batch.find(kAttentionMask);
  if (mask == nullptr || mask->numel() != labels.numel()) return labels;
  const at::Tensor before = mask->to(labels.device()).reshape(labels.sizes()).roll(1, -1);
  return labels.masked_fill(before.eq(0), kIgnored);
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
  state.set(options_.output, logits(finish(take(state, kHidden))));
}

at::Tensor LanguageHead::own_labels(const at::Tensor& labels) const {
  return layer_->operation->own_labels(labels);
}

// All ranks that share a row choose it, because they have the same labels. Of labels on the device all rows
// count: the host would have to wait for it.
const LanguageHead::LossRows* LanguageHead::rows_of_loss() const {
  constexpr double kWorthwhile = 0.75;  // a copy of more rows costs what it saves
  const RunningUnit* const running = RunningUnit::find();
  const Batch* const batch = running == nullptr ? nullptr : running->context().batch_of_loss();
  if (batch == nullptr || !batch->has(kLabels)) return nullptr;
  auto& loss = running->context().kept().of<LossRows>(this);
  if (loss.labels.defined()) return &loss;
  at::Tensor labels = own_labels(labels_of(*batch));
  if (device::is_on_host(labels) &&
      RowLabels{labels}.count() < kWorthwhile * static_cast<double>(labels.numel())) {
    labels = labels.reshape(-1);
    at::Tensor rows = labels.ne(kIgnored).nonzero().squeeze(1);
    // Without any row, backward would not reach the layers below.
    if (rows.numel() == 0) rows = at::zeros({1}, rows.options());
    labels = labels.index_select(0, rows);
    loss.chosen = device::on_device(rows);
  }
  loss.labels = device::on_device(labels);
  return &loss;
}

at::Tensor LanguageHead::logits(const at::Tensor& hidden) const {
  at::Tensor chosen = hidden;
  if (KeyValueCache::current() != nullptr)
    chosen = hidden.narrow(-2, hidden.size(-2) - 1, 1);
  else if (const LossRows* const loss = rows_of_loss(); loss != nullptr && loss->chosen.defined())
    chosen = hidden.flatten(0, -2).index_select(0, loss->chosen);
  chosen = transform(chosen);
  return soft_capped((*layer_)(options_.scale == 1 ? chosen : chosen * options_.scale), options_.soft_cap);
}

at::Tensor LanguageHead::labels_of(const Batch& batch, const char* field) const {
  return options_.shifts ? next_tokens(without_padding(batch, field).to(at::kLong))
                         : batch.at(field).to(at::kLong);
}

std::vector<LossTerm> LanguageHead::loss(const State& outputs, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& logits = outputs.at(options_.output);
  const LossRows* const alone = rows_of_loss();
  const at::Tensor labels = alone != nullptr ? alone->labels : own_labels(labels_of(batch));
  // Nobody else reads the logits of a forward for its loss alone.
  const std::optional<double> gradient =
      alone != nullptr ? RunningUnit::current().context().gradient_of_loss(options_.term) : std::nullopt;
  return {{options_.term, 1, layer_->operation->cross_entropy_sum(logits, labels, kIgnored, gradient)}};
}

std::vector<LossCount> LanguageHead::counts(const Batch& batch, at::IntArrayRef) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor labels = options_.shifts ? without_padding(batch).slice(-1, 1) : batch.at(kLabels);
  return {{options_.term, RowLabels{labels}.count()}};
}

std::vector<Metric> LanguageHead::metrics(const State& outputs, const Batch& batch) const {
  std::vector<Metric> metrics;
  const at::Tensor& logits = outputs.at(options_.output);
  if (batch.has(kTextBytes)) {
    const at::Tensor sum = layer_->operation->cross_entropy_sum(
        logits, own_labels(labels_of(batch, kTextLabels)), kIgnored, std::nullopt);
    metrics.emplace_back("bits_per_byte", device::value_of<double>(sum) / std::log(2.0),
                         device::value_of<double>(batch.at(kTextBytes).sum(at::kDouble)));
  }
  if (options_.accuracy.empty() || !batch.has(kLabels)) return metrics;
  const at::Tensor labels = labels_of(batch);
  const double right = layer_->operation->count_right(logits, own_labels(labels), kIgnored);
  metrics.emplace_back(options_.accuracy, right, RowLabels{labels}.count());
  return metrics;
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
