#include "policies/trials.hpp"

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

struct TinyBloom {
  std::string architecture;
  bool adds_to_normed = false;
  double dropout = 0;
};

// 12 heads, whose slopes are of two sequences.
Model tiny_bloom(const TinyBloom& bloom, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "bloom", "vocab_size": 23, "hidden_size": 24, "n_layer": 2,
      "n_head": 12, "apply_residual_connection_post_layernorm": {0}, "hidden_dropout": {1},
      "attention_dropout": {1}, "pad_token_id": 0, "num_labels": 3, "initializer_range": 0.3}})",
                  bloom.adds_to_normed, bloom.dropout);
  return tiny_model(config, bloom.architecture, precision);
}

// Rows have padding on either side, so that the positions of tokens are not those of the sequence.
Trial bloom_trial(const TinyBloom& bloom, const std::string& precision) {
  std::vector<std::string> without;
  if (bloom.architecture == "BloomForQuestionAnswering")
    without = {"qa_outputs.bias", "transformer.ln_f.bias"};
  return {
      .tolerance = trial_tolerance(precision),
      .without_gradient = without,
      .model = [=](const JobOptions& options) { return tiny_bloom(bloom, options.precision); },
      .batch =
          [=](int64_t step) { return padded(bloom.architecture, class_batch(bloom.architecture, 6, step)); }};
}

TinyTrial model_of(const TinyBloom& bloom, const std::vector<std::string>& precisions = {"fp64"}) {
  return {bloom.architecture + (bloom.adds_to_normed ? ", adds to what is normed" : ""),
          [=](const std::string& precision) { return bloom_trial(bloom, precision); }, precisions};
}

}  // namespace

const char* const kFamily = "bloom";

FamilyTrials family_trials() {
  FamilyTrials trials;
  trials.models = {
      model_of({"BloomForCausalLM"}, {"fp32", "fp64"}),   model_of({"BloomForCausalLM", true}),
      model_of({"BloomForSequenceClassification", true}), model_of({"BloomForTokenClassification"}),
      model_of({"BloomForTokenClassification", true}),    model_of({"BloomForQuestionAnswering"})};
  trials.bases = {{"BloomModel", [](const std::string& precision) {
                     return base_trial(bloom_trial({"BloomModel"}, precision));
                   }}};
  trials.packed = {{"BloomForCausalLM, packed",
                    [](const std::string& precision) {
                      return packed_trial(bloom_trial({"BloomForCausalLM"}, precision));
                    },
                    {"fp64"}}};
  trials.plans = {trials.models[0]};
  trials.forms = {{"BloomForCausalLM", [](const std::string& precision) {
                     return form_trial(bloom_trial({"BloomForCausalLM", false, 0.2}, precision));
                   }}};
  return trials;
}

}  // namespace weft::test
