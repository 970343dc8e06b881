// Model classes to be trained on tensor and sequence axes: sizes that no number of ranks divides.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kGpt2Classes[] = {"GPT2LMHeadModel", "GPT2DoubleHeadsModel",
                                               "GPT2ForSequenceClassification", "GPT2ForTokenClassification",
                                               "GPT2ForQuestionAnswering"};

// Llama, or a family of the same modules.
struct TinyLlama {
  std::string architecture;
  int64_t key_heads;
  bool tied;
  std::string type = "llama", more = "";
};
// With windows shorter than the 7 positions of llama_batch(): in every layer, in the second, in the first.
inline const TinyLlama kMistral = {"MistralForCausalLM", 2, false, "mistral", R"("sliding_window": 3, )"};
inline const TinyLlama kQwen2 = {
    "Qwen2ForCausalLM", 4, true, "qwen2",
    R"("use_sliding_window": true, "sliding_window": 2, "max_window_layers": 1, )"};
inline const TinyLlama kQwen3 = {"Qwen3ForCausalLM", 1, false, "qwen3",
                                 R"("use_sliding_window": true, "sliding_window": 4,
                                    "layer_types": ["sliding_attention", "full_attention"], )"};
Model tiny_llama(const TinyLlama& llama, const std::string& precision);
// Id 20 is padding, whose row has no gradient.
Batch llama_batch(const std::string& architecture, int64_t step);

struct TinyOpt {
  std::string architecture;
  bool norm_before = true;
  bool biases = true;
};
// Its embeddings have another width than its blocks.
Model tiny_opt(const TinyOpt& opt, const std::string& precision);

struct TinyBloom {
  std::string architecture;
  bool adds_to_normed = false;
};
// 12 heads, whose slopes are of two sequences.
Model tiny_bloom(const TinyBloom& bloom, const std::string& precision);

// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial gpt2_trial(const std::string& architecture, const std::string& precision);
Trial llama_trial(const TinyLlama& llama, const std::string& precision);
// Rows have padding on either side, so that the positions of tokens are not those of the sequence.
Trial opt_trial(const TinyOpt& opt, const std::string& precision);
Trial bloom_trial(const TinyBloom& bloom, const std::string& precision);

// Gradients of GPT2Model, LlamaModel, OPTModel or BloomModel under a criterion of all its hidden states.
// Collective.
Tensors criterion_gradients(const World& world, const JobOptions& options,
                            const std::string& architecture = "GPT2Model");

}  // namespace weft::test
