#include "policies/trials.hpp"

#include "policies/llama/llama_trial.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

const char* const kFamily = "mistral";

// A window that is shorter than the 7 positions of llama_batch().
FamilyTrials family_trials() {
  const TinyLlama mistral = {"MistralForCausalLM", 2, false, "mistral", R"("sliding_window": 3, )"};
  const TinyTrial padding = {
      "MistralForCausalLM, padding",
      [=](const std::string& precision) { return padded_trial(llama_trial(mistral, precision)); },
      {"fp64"}};
  std::vector<TinyTrial> models = llama_classifiers(mistral, "Mistral");
  models.insert(models.begin(), {llama_model(mistral), padding});
  return {.models = models,
          .bases = {llama_base(mistral, "MistralModel")},
          .packed = {packed_llama(mistral)},
          .plans = {llama_model(mistral)},
          .forms = {llama_form("MistralForCausalLM", R"({"model_type": "mistral", "vocab_size": 23,
              "hidden_size": 24, "max_position_embeddings": 9, "intermediate_size": 20,
              "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
              "sliding_window": 3, "initializer_range": 0.3})")}};
}

}  // namespace weft::test
