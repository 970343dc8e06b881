#include "policies/trials.hpp"

#include "policies/llama/llama_trial.hpp"

namespace weft::test {

const char* const kFamily = "llama";

// Grouped queries, and heads of keys that are fewer than ranks.
FamilyTrials family_trials() {
  const TinyLlama tied = {"LlamaForCausalLM", 2, true};
  std::vector<TinyTrial> models = llama_classifiers({"", 1, false}, "Llama");
  models.insert(models.begin(), {llama_model(tied), llama_model({"LlamaForCausalLM", 4, false})});
  return {.models = models,
          .bases = {llama_base(tied, "LlamaModel")},
          .plans = {llama_model(tied)},
          .forms = {llama_form("LlamaForCausalLM", R"({"model_type": "llama", "vocab_size": 23,
              "hidden_size": 24, "max_position_embeddings": 9, "intermediate_size": 20,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "mlp_bias": true,
              "initializer_range": 0.3})")}};
}

}  // namespace weft::test
