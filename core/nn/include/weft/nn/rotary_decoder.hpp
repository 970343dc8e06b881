// Decoders of pre-norm blocks of grouped-query attention with rotary position embeddings and of a gated MLP
// (Touvron et al., arXiv:2302.13971). Families of this structure share one implementation; each of them is a
// configuration: its keys, its defaults, which layers have biases, norms of heads, and sliding windows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/rotary.hpp"

namespace weft::nn {

// The configuration of a rotary decoder. The members of the first part have the names of config.json; read()
// takes their values before the call as defaults. A family sets those of the second part.
struct RotaryDecoderConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  double attention_dropout = 0;
  double classifier_dropout = 0.1;  // of the class for tokens; also called "hidden_dropout"
  bool classifier_bias = true;      // "token_classification_bias"
  bool tie_word_embeddings = false;
  std::optional<int64_t> pad_token_id;
  // The default of the key, RotaryConfig::part. Empty: the family turns all channels of a head, and a file
  // with another value is refused.
  std::optional<double> partial_rotary_factor;
  RotaryConfig rotary;
  Labels labels;

  bool input_bias = false;   // of q_proj, k_proj and v_proj
  bool output_bias = false;  // of o_proj
  bool mlp_bias = false;     // of gate_proj, up_proj and down_proj
  bool norms_heads = false;  // q_norm and k_norm normalize each head before its rotation
  // Of the scores of attention, AttentionOptions::scale and soft_cap.
  std::optional<double> attention_scale;
  double attention_soft_cap = 0;
  double logit_soft_cap = 0;          // LanguageHead::Options::soft_cap
  std::vector<int64_t> windows;       // AttentionOptions::window of each layer; empty: none has a window
  std::string answer_base = "model";  // the name of the base model in the class for question answering

  // Reads config.json. `family` is the name for messages, `type` the model_type. Throws INVALID_ARGUMENT or
  // UNIMPLEMENTED naming the file, the key, its value and the values that are allowed.
  void read(const Config& config, std::string_view family, std::string_view type);
  // Returns "sliding_window", or `otherwise` if the key is absent. Null, and 0 here, is no window.
  static int64_t read_window(const Config& config, int64_t otherwise);
  // Sets `windows` of the layers from `first` on to `window`, or of those that "layer_types" calls
  // "sliding_attention" if there is such a list. Throws if such a layer has no window.
  void read_windows(const Config& config, int64_t window, int64_t first);

  // Calls read_windows() as "use_sliding_window", "sliding_window" and "max_window_layers", the first layer
  // with a window, say.
  void read_switched_windows(const Config& config);

  // Returns the row of the embedding that belongs to the padding token and gets no gradient from it. A
  // negative pad_token_id counts from the end.
  std::optional<int64_t> padding_row() const;
};

// Returns the model class called `architecture` on the meta device. Its name is `family` ("MyFamily")
// followed by Model, ForCausalLM, ForSequenceClassification, ForTokenClassification or ForQuestionAnswering.
// Throws NOT_FOUND naming all classes.
std::shared_ptr<Model> make_rotary_decoder(const Config& config, const RotaryDecoderConfig& decoder,
                                           std::string_view family, std::string_view architecture,
                                           at::ScalarType dtype);

}  // namespace weft::nn
