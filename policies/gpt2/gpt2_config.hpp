// The configuration of GPT-2. Names and defaults are those of Hugging Face's GPT2Config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"

namespace weft::gpt2 {

struct SummaryConfig {
  enum class Type { kLast, kFirst, kMean, kClsIndex };
  Type type = Type::kClsIndex;
  bool use_projection = true;
  bool project_to_labels = true;
  std::string activation;  // empty: none
  double first_dropout = 0.1;
  double last_dropout = 0;
};

struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // hidden size of the MLP; read() sets 4 n_embd if config.json has none
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double classifier_dropout = 0.1;  // for GPT2ForTokenClassification
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;
  bool tie_word_embeddings = true;
  std::optional<int64_t> pad_token_id;
  nn::Labels labels;
  SummaryConfig summary;

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static Gpt2Config read(const Config& config);
};

}  // namespace weft::gpt2
