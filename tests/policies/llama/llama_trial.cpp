#include "policies/llama/llama_trial.hpp"

#include "base/text.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

Model tiny_llama(const TinyLlama& llama, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "{}", {}"vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": {}, "head_dim": 16, "mlp_bias": true, "attention_bias": {},
      "tie_word_embeddings": {}, "pad_token_id": 20, "num_labels": 3, "classifier_dropout": 0.0,
      "initializer_range": 0.3}})",
                  llama.type, llama.more, llama.key_heads, precision == "fp64", llama.tied);
  return tiny_model(config, llama.architecture, precision);
}

Batch llama_batch(const std::string& architecture, int64_t step) {
  Batch batch = class_batch(architecture, 6, step);
  batch.at("input_ids").narrow(1, 5, 2).fill_(20);
  return batch;
}

Trial llama_trial(const TinyLlama& llama, const std::string& precision) {
  std::vector<std::string> without;
  // Added to the logits of every position alike.
  if (llama.architecture.ends_with("ForQuestionAnswering")) without = {"qa_outputs.bias"};
  return {.tolerance = trial_tolerance(precision),
          .without_gradient = without,
          .model = [=](const JobOptions& options) { return tiny_llama(llama, options.precision); },
          .batch = [=](int64_t step) { return llama_batch(llama.architecture, step); }};
}

TinyTrial llama_model(const TinyLlama& llama) {
  return {fmt::format("{}, {} heads of keys", llama.architecture, llama.key_heads),
          [=](const std::string& precision) { return llama_trial(llama, precision); }};
}

TinyTrial packed_llama(const TinyLlama& llama) {
  return {llama.architecture + ", packed",
          [=](const std::string& precision) { return packed_trial(llama_trial(llama, precision)); },
          {"fp64"}};
}

std::vector<TinyTrial> llama_classifiers(TinyLlama llama, const std::string& family) {
  llama.tied = false;
  std::vector<TinyTrial> trials;
  for (const char* task : {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}) {
    llama.architecture = family + task;
    trials.push_back(llama_model(llama));
    trials.back().precisions = {"fp64"};
  }
  return trials;
}

TinyTrial llama_base(TinyLlama llama, const std::string& architecture) {
  llama.architecture = architecture;
  return {architecture,
          [=](const std::string& precision) { return base_trial(llama_trial(llama, precision)); }};
}

TinyTrial llama_form(const std::string& architecture, const std::string& config) {
  const Trial trial = form_trial({.model = [=](const JobOptions& options) {
    return tiny_model(config, architecture, options.precision);
  }});
  return {architecture, [=](const std::string&) { return trial; }};
}

}  // namespace weft::test
