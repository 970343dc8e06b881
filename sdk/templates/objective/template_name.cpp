// Focal loss (Lin et al., Focal loss for dense object detection, 2017): cross entropy in which labels that
// the model predicts well count less. The label of probability p adds -(1 - p)^gamma log p.
#include <weft/define_objective.hpp>

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <vector>

namespace {

constexpr int64_t kIgnored = -100;  // the label of a position that does not count

class FocalLoss final : public weft::TrainingLoss {
 public:
  FocalLoss(double gamma, bool shift) : gamma_(gamma), shift_(shift) {}

  // Reads the batch alone, before the forward.
  std::vector<weft::nn::LossCount> counts(const weft::Batch& batch) const override {
    if (!batch.has("labels")) return {};
    return {{"loss", labels_of(batch).ne(kIgnored).sum().item<double>()}};
  }

  // Returns the sum over the labels; the host divides it by their number in the global batch.
  std::vector<weft::nn::LossTerm> terms(const weft::State& outputs, const weft::Batch& batch) const override {
    at::Tensor logits = outputs.at("logits");
    const at::Tensor labels = labels_of(batch);
    if (shift_ && logits.dim() > 2) logits = logits.narrow(-2, 0, logits.size(-2) - 1);
    if (labels.sizes() != logits.sizes().slice(0, logits.dim() - 1))
      throw weft::Error(WEFT_INVALID_ARGUMENT,
                        "\"labels\" must have the shape of the logits without the classes");
    if (at::isReducedFloatingType(logits.scalar_type())) logits = logits.to(at::kFloat);
    const at::Tensor counted = labels.ne(kIgnored);
    // The log of the probability of each label; that of a position that does not count is of any class.
    const at::Tensor log_p =
        at::log_softmax(logits, -1).gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    // 1 - p, not quite 0, where powers below 1 have no derivative.
    const at::Tensor others = log_p.expm1().neg().clamp_min(1e-12);
    const at::Tensor losses = others.pow(gamma_) * log_p.neg();
    return {{"loss", 1, at::where(counted, losses, at::zeros_like(losses)).sum()}};
  }

 private:
  // In a causal language model the label of a position is the token behind it.
  at::Tensor labels_of(const weft::Batch& batch) const {
    const at::Tensor labels = batch.at("labels").to(at::kLong);
    return shift_ && labels.dim() > 1 ? labels.slice(-1, 1) : labels;
  }

  const double gamma_;
  const bool shift_;
};

std::shared_ptr<const weft::TrainingLoss> make_loss(const weft::ObjectiveRequest& request) {
  return std::make_shared<FocalLoss>(request.options.get<double>("gamma"),
                                     request.options.get<bool>("shift"));
}

}  // namespace

WEFT_OBJECTIVE_LIBRARY(make_loss)
