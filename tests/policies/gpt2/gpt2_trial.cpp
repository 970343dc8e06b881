#include "policies/gpt2/gpt2_trial.hpp"

#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

Batch gpt2_class_batch(const std::string& architecture, int64_t step) {
  if (architecture != "GPT2DoubleHeadsModel") return class_batch(architecture, 6, step);
  at::manual_seed(static_cast<uint64_t>(step));
  const auto random = [](int64_t high, std::vector<int64_t> shape) {
    return at::randint(high, shape, at::kLong);
  };
  return {{"input_ids", random(23, {6, 2, 7})},
          {"mc_token_ids", random(7, {6, 2})},
          {"labels", random(23, {6, 2, 7})},
          {"mc_labels", random(2, {6})}};
}

}  // namespace

Trial gpt2_trial(const std::string& architecture, const std::string& precision) {
  // Added to the logits of every position, or every choice, alike.
  static const std::map<std::string, std::vector<std::string>> kWithoutGradient = {
      {"GPT2ForQuestionAnswering", {"qa_outputs.bias", "transformer.ln_f.bias"}},
      {"GPT2DoubleHeadsModel", {"multiple_choice_head.summary.bias"}}};
  const auto without = kWithoutGradient.find(architecture);
  return {
      .tolerance = trial_tolerance(precision),
      .without_gradient = without == kWithoutGradient.end() ? std::vector<std::string>() : without->second,
      .model =
          [=](const JobOptions& options) {
            return tiny_gpt2(TinyGpt2{.architecture = architecture,
                                      .precision = options.precision,
                                      .width = 16,
                                      .heads = 4,
                                      .more = R"(, "num_labels": 3, "pad_token_id": 0,
                                                     "classifier_dropout": 0.0,
                                                     "summary_first_dropout": 0.0,
                                                     "summary_proj_to_labels": true)"});
          },
      .batch = [=](int64_t step) { return gpt2_class_batch(architecture, step); }};
}

}  // namespace weft::test
