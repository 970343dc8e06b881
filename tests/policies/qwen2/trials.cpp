#include "policies/trials.hpp"

#include "policies/llama/llama_trial.hpp"

namespace weft::test {

const char* const kFamily = "qwen2";

// A window in the second layer. In fp64 only, because keys have biases; see tiny_llama().
FamilyTrials family_trials() {
  const TinyLlama qwen = {"Qwen2ForCausalLM", 4, true, "qwen2",
                          R"("use_sliding_window": true, "sliding_window": 2, "max_window_layers": 1, )"};
  TinyTrial model = llama_model(qwen);
  TinyTrial form = llama_form("Qwen2ForCausalLM", R"({"model_type": "qwen2", "vocab_size": 23,
      "hidden_size": 24, "max_position_embeddings": 9, "intermediate_size": 20, "num_hidden_layers": 1,
      "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3})");
  model.precisions = form.precisions = {"fp64"};
  std::vector<TinyTrial> models = llama_classifiers(qwen, "Qwen2");
  models.insert(models.begin(), model);
  return {.models = models,
          .bases = {llama_base(qwen, "Qwen2Model")},
          .packed = {packed_llama(qwen)},
          .plans = {model},
          .forms = {form}};
}

}  // namespace weft::test
