// The values of an evaluation, by the keys that logs and options have for them.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "opening/model_state.hpp"
#include "training/bindings.hpp"
#include "weft/nn/model.hpp"
#include "weft/trainer.hpp"

namespace weft {

EvaluationValues evaluation_values(const Evaluation& evaluation, const Job& job) {
  const Bindings& bindings = job.model.shared().bindings();
  EvaluationValues values;
  values["loss"] = evaluation.labels() > 0 ? std::optional(evaluation.loss()) : std::nullopt;
  const bool own_loss = !job.criterion && !bindings.options().loss;
  for (const Evaluation::Term& term : evaluation.terms)
    if (own_loss && term.name == bindings.model().perplexity_term() && term.count > 0)
      values["perplexity"] = std::exp(term.sum / term.count);
  for (const Measure& measure : evaluation.measures())
    if (measure.count > 0)
      values[measure.name] = std::isnan(measure.value) ? std::nullopt : std::optional(measure.value);
  return values;
}

bool is_better(const std::string& key, const std::optional<double>& value,
               const std::optional<double>& than) {
  constexpr std::array<std::string_view, 5> kLower = {"loss", "perplexity", "bits_per_byte", "mse",
                                                      "word_error_rate"};
  if (!value || !std::isfinite(*value)) return false;
  if (!than) return true;
  const std::string_view last = std::string_view(key).substr(key.rfind('/') + 1);
  const bool lower = std::find(kLower.begin(), kLower.end(), last) != kLower.end();
  return lower ? *value < *than : *value > *than;
}

}  // namespace weft
