#include "evaluation/set_evaluation.hpp"

#include "base/text.hpp"

namespace weft {

std::optional<SetResult> evaluate_set(Job& job, EvaluationSet& set, int64_t most_batches,
                                      const std::function<bool()>& is_stopped) {
  set.data.seek({});
  for (const std::shared_ptr<SetMeasures>& measures : set.measures) measures->begin();
  SetResult result;
  int64_t left = most_batches > 0 ? most_batches : set.data.batches_per_epoch();
  for (const Batch& batch : set.data) {
    const auto [outputs, evaluation] = job.forward_and_evaluate(batch);
    if (evaluation.terms.empty())
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has no labels to evaluate on", job.model.architecture(),
           set.data.dataset().name());
    result.total += evaluation;
    for (const std::shared_ptr<SetMeasures>& measures : set.measures) measures->add(job, batch, outputs);
    if (--left == 0) break;
    if (is_stopped()) return std::nullopt;
  }
  result.values = evaluation_values(result.total, job);
  for (const std::shared_ptr<SetMeasures>& measures : set.measures) measures->end(result.values);
  return result;
}

}  // namespace weft
