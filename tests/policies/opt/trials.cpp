#include "policies/trials.hpp"

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

struct TinyOpt {
  std::string architecture;
  bool norm_before = true;
  bool biases = true;
  double dropout = 0;
};

// Its embeddings have another width than its blocks.
Model tiny_opt(const TinyOpt& opt, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "opt", "vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 16, "ffn_dim": 20, "word_embed_proj_dim": 10, "num_hidden_layers": 2,
      "num_attention_heads": 4, "do_layer_norm_before": {}, "enable_bias": {}, "dropout": {},
      "pad_token_id": 0, "num_labels": 3, "init_std": 0.3}})",
                  opt.norm_before, opt.biases, opt.dropout);
  return tiny_model(config, opt.architecture, precision);
}

// Rows have padding on either side, so that the positions of tokens are not those of the sequence.
Trial opt_trial(const TinyOpt& opt, const std::string& precision) {
  // Attention does not change if a number is added to all scores of a query.
  std::vector<std::string> without = {"model.decoder.layers.0.self_attn.k_proj.bias",
                                      "model.decoder.layers.1.self_attn.k_proj.bias"};
  if (opt.architecture == "OPTForQuestionAnswering")
    without.insert(without.end(),
                   {"qa_outputs.bias", opt.norm_before ? "model.decoder.final_layer_norm.bias"
                                                       : "model.decoder.layers.1.final_layer_norm.bias"});
  if (!opt.biases) without.clear();
  return {.tolerance = trial_tolerance(precision),
          .without_gradient = without,
          .model = [=](const JobOptions& options) { return tiny_opt(opt, options.precision); },
          .batch =
              [=](int64_t step) { return padded(opt.architecture, class_batch(opt.architecture, 6, step)); }};
}

TinyTrial model_of(const TinyOpt& opt, const std::vector<std::string>& precisions = {"fp64"}) {
  return {opt.architecture + (opt.norm_before ? "" : ", norms after"),
          [=](const std::string& precision) { return opt_trial(opt, precision); }, precisions};
}

}  // namespace

const char* const kFamily = "opt";

FamilyTrials family_trials() {
  const TinyOpt without_biases = {"OPTForCausalLM", true, /*biases=*/false};
  FamilyTrials trials;
  trials.models = {
      model_of({"OPTForCausalLM"}, {"fp32", "fp64"}), model_of({"OPTForCausalLM", false}),
      model_of({"OPTForSequenceClassification"}),     model_of({"OPTForSequenceClassification", false}),
      model_of({"OPTForQuestionAnswering"}),          model_of({"OPTForQuestionAnswering", false})};
  trials.bases = {{"OPTModel", [](const std::string& precision) {
                     return base_trial(opt_trial({"OPTModel", true, /*biases=*/false}, precision));
                   }}};
  trials.packed = {
      {"OPTForCausalLM, packed",
       [](const std::string& precision) { return packed_trial(opt_trial({"OPTForCausalLM"}, precision)); },
       {"fp64"}}};
  trials.plans = {model_of(without_biases)};
  trials.forms = {{"OPTForCausalLM", [](const std::string& precision) {
                     return form_trial(opt_trial({"OPTForCausalLM", true, /*biases=*/false, 0.2}, precision));
                   }}};
  return trials;
}

}  // namespace weft::test
