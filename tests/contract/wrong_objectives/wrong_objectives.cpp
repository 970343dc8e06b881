// Cross entropy of the next token, once right and else with one mistake for each name.
#include <weft/define_objective.hpp>

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <stdexcept>

namespace {

class CrossEntropy final : public weft::TrainingLoss {
 public:
  CrossEntropy(std::string name, std::string labels) : name_(std::move(name)), labels_(std::move(labels)) {}

  std::vector<weft::nn::LossCount> counts(const weft::Batch& batch) const override {
    if (is("fails_by_itself") && !batch.has("labels")) throw std::runtime_error("no key");
    if (!batch.has("labels")) return {};
    const double labels = labels_of(batch).ne(-100).sum().item<double>();
    if (is("forgets_a_term")) return {{"loss", labels}, {"more", labels}};
    if (is("counts_calls")) return {{"loss", labels + static_cast<double>(calls_++)}};
    if (is("counts_below_zero")) return {{"loss", -labels}};
    return {{"loss", is("means_over_the_batch") ? 1 : labels}};
  }

  std::vector<weft::nn::LossTerm> terms(const weft::State& outputs, const weft::Batch& batch) const override {
    at::Tensor logits = outputs.at("logits");
    if (is("changes_logits")) logits.detach().mul_(2);
    if (is("changes_labels")) batch.at("labels").clamp_(-100, 7);
    if (is("is_detached")) logits = logits.detach();
    const bool sums_in_half = is("sums_in_half") && logits.scalar_type() == at::kBFloat16;
    if (at::isReducedFloatingType(logits.scalar_type())) logits = logits.to(at::kFloat);
    logits = logits.narrow(-2, 0, logits.size(-2) - 1);
    at::Tensor labels = labels_of(batch);
    if (is("takes_any_shape") && labels.size(1) < logits.size(1))
      logits = logits.narrow(1, 0, labels.size(1));
    if (labels.sizes() != logits.sizes().slice(0, 2))
      throw weft::Error(WEFT_INVALID_ARGUMENT, "\"labels\" must have a label for each position");
    const at::Tensor log_p =
        at::log_softmax(logits, -1).gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    at::Tensor losses = at::where(labels.ne(-100), -log_p, at::zeros_like(log_p));
    if (is("has_half_a_gradient")) losses = losses / 2 + losses.detach() / 2;
    at::Tensor sum = losses.sum();
    if (is("other_every_time")) sum = sum * (1 + 1e-3 * static_cast<double>(calls_++));
    if (sums_in_half) sum = losses.to(at::kBFloat16).sum();
    const at::Tensor count = labels.ne(-100).sum();
    if (is("means_over_the_batch")) sum = sum / count.clamp_min(1);
    if (is("is_nan_without_labels")) sum = sum / count * count;
    if (is("compares_samples")) sum = sum + logits.mean({0}).square().sum();
    return {{"loss", 1, is("keeps_positions") ? losses : sum}};
  }

  std::string labels() const override { return labels_; }

 private:
  bool is(const char* mistake) const { return name_ == mistake; }
  static at::Tensor labels_of(const weft::Batch& batch) {
    return batch.at("labels").to(at::kLong).slice(-1, 1);
  }

  const std::string name_, labels_;
  mutable int64_t calls_ = 0;
};

std::shared_ptr<const weft::TrainingLoss> make_loss(const weft::ObjectiveRequest& request) {
  if (request.name == "nothing") return nullptr;
  return std::make_shared<CrossEntropy>(request.name, request.options.get<std::string>("labels"));
}

}  // namespace

WEFT_OBJECTIVE_LIBRARY(make_loss)
