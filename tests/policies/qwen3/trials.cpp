#include "policies/trials.hpp"

#include "policies/llama/llama_trial.hpp"

namespace weft::test {

const char* const kFamily = "qwen3";

// A window in the first layer. Plans have two heads of keys, whose norms two ranks hold.
FamilyTrials family_trials() {
  TinyLlama qwen = {"Qwen3ForCausalLM", 1, false, "qwen3",
                    R"("use_sliding_window": true, "sliding_window": 4,
                       "layer_types": ["sliding_attention", "full_attention"], )"};
  std::vector<TinyTrial> models = llama_classifiers(qwen, "Qwen3");
  models.insert(models.begin(), llama_model(qwen));
  FamilyTrials trials = {.models = models,
                         .bases = {llama_base(qwen, "Qwen3Model")},
                         .packed = {packed_llama(qwen)},
                         .forms = {llama_form("Qwen3ForCausalLM", R"({"model_type": "qwen3",
                             "vocab_size": 23, "hidden_size": 24, "max_position_embeddings": 9,
                             "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 4,
                             "num_key_value_heads": 2, "head_dim": 6, "initializer_range": 0.3})")}};
  qwen.key_heads = 2;
  trials.plans = {llama_model(qwen)};
  return trials;
}

}  // namespace weft::test
