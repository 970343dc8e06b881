#include "policies/trials.hpp"

#include "policies/llama/llama_trial.hpp"

namespace weft::test {

namespace {

// A split sequence leaves ranks without positions.
TinyTrial short_model(const TinyLlama& llama) {
  return {llama.architecture + ", fewer positions than ranks",
          [=](const std::string& precision) {
            Trial trial = llama_trial(llama, precision);
            trial.batch = [batch = trial.batch](int64_t step) {
              const Batch whole = batch(step);
              return Batch{{"input_ids", whole.at("input_ids").narrow(1, 0, 3)},
                           {"labels", whole.at("labels").narrow(1, 0, 3)}};
            };
            return trial;
          },
          {"fp64"}};
}

}  // namespace

const char* const kFamily = "llama";

// Grouped queries, and heads of keys that are fewer than ranks.
FamilyTrials family_trials() {
  const TinyLlama tied = {"LlamaForCausalLM", 2, true};
  std::vector<TinyTrial> models = llama_classifiers({"", 1, false}, "Llama");
  models.insert(models.begin(),
                {llama_model(tied), llama_model({"LlamaForCausalLM", 4, false}), short_model(tied)});
  return {.models = models,
          .bases = {llama_base(tied, "LlamaModel")},
          .packed = {packed_llama(tied)},
          .plans = {llama_model(tied)},
          .forms = {llama_form("LlamaForCausalLM", R"({"model_type": "llama", "vocab_size": 23,
              "hidden_size": 24, "max_position_embeddings": 9, "intermediate_size": 20,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "mlp_bias": true,
              "initializer_range": 0.3})")}};
}

}  // namespace weft::test
