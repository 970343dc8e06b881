// Distillation (Hinton et al., Distilling the knowledge in a neural network, 2015) of a causal language
// model: each token is learned from the distribution of a teacher, whose logits are a field of the data, and
// from the token itself.
//
// Fields: labels (B, T), -100 where nothing counts; teacher_logits (B, T, vocabulary), of the same positions.
#include <weft/define_objective.hpp>

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <string>
#include <vector>

namespace {

constexpr const char* kLabels = "labels";
constexpr const char* kTeacher = "teacher_logits";
constexpr int64_t kIgnored = -100;

[[noreturn]] void refuse(const std::string& text) {
  throw weft::Error(WEFT_INVALID_ARGUMENT, text);
}

class Distillation final : public weft::TrainingLoss {
 public:
  Distillation(double temperature, double teacher_weight)
      : temperature_(temperature), teacher_weight_(teacher_weight) {}

  std::vector<weft::nn::LossCount> counts(const weft::Batch& batch) const override {
    for (const char* field : {kLabels, kTeacher})
      if (!batch.has(field)) refuse(std::string("the data has no field \"") + field + "\"");
    const double labels = next_tokens(batch).ne(kIgnored).sum().item<double>();
    return {{"divergence", labels}, {"lm_loss", labels}};
  }

  std::vector<weft::nn::LossTerm> terms(const weft::State& outputs, const weft::Batch& batch) const override {
    const at::Tensor student = without_last(outputs.at("logits")), teacher = without_last(batch.at(kTeacher)),
                     labels = next_tokens(batch);
    if (teacher.sizes() != student.sizes())
      refuse(std::string("\"") + kTeacher + "\" must have the shape of the student's logits");
    if (labels.sizes() != student.sizes().slice(0, 2))
      refuse(std::string("\"") + kLabels + "\" must have the shape of the logits without the vocabulary");
    const at::Tensor of_student = at::log_softmax(student / temperature_, -1),
                     of_teacher = at::log_softmax(teacher / temperature_, -1);
    // KL(teacher || student) of each position.
    const at::Tensor divergence = (of_teacher.exp() * (of_teacher - of_student)).sum(-1);
    const at::Tensor log_p =
        at::log_softmax(student, -1).gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    const auto sum = [counted = labels.ne(kIgnored)](const at::Tensor& losses) {
      return at::where(counted, losses, at::zeros_like(losses)).sum();
    };
    return {{"divergence", teacher_weight_, sum(divergence) * (temperature_ * temperature_)},
            {"lm_loss", 1 - teacher_weight_, sum(log_p.neg())}};
  }

  std::vector<std::string> fields() const override { return {kTeacher}; }

 private:
  static at::Tensor next_tokens(const weft::Batch& batch) {
    return batch.at(kLabels).to(at::kLong).slice(-1, 1);
  }
  // The last position predicts no token. Half precision becomes fp32, in which sums are exact enough.
  static at::Tensor without_last(const at::Tensor& logits) {
    if (logits.dim() != 3) refuse("distillation is for logits of (B, T, vocabulary)");
    const at::Tensor wide = at::isReducedFloatingType(logits.scalar_type()) ? logits.to(at::kFloat) : logits;
    return wide.narrow(-2, 0, wide.size(-2) - 1);
  }

  const double temperature_, teacher_weight_;
};

std::shared_ptr<const weft::TrainingLoss> make_loss(const weft::ObjectiveRequest& request) {
  return std::make_shared<Distillation>(request.options.get<double>("temperature"),
                                        request.options.get<double>("teacher_weight"));
}

}  // namespace

WEFT_OBJECTIVE_LIBRARY(make_loss)
