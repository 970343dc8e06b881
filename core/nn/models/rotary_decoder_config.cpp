#include <algorithm>

#include "base/text.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/rotary_decoder.hpp"

namespace weft::nn {

namespace {

// Hugging Face's defaults are for keys that are absent. Null is a value: no window, or no other number.
bool is_null(const Config& config, std::string_view key) {
  return config.json(key) == "null";
}

// Returns the rotary positions of heads of `head_dim` channels.
RotaryConfig read_rotary(const Config& config, const RotaryDecoderConfig& decoder) {
  const int64_t head_dim = decoder.head_dim;
  const RotaryConfig rotary =
      RotaryConfig::read(config, decoder.max_position_embeddings, decoder.partial_rotary_factor);
  if (rotary.turning(head_dim) > 0) return rotary;
  const char* const origin =
      config.has("head_dim") ? "" : " (\"hidden_size\" divided by \"num_attention_heads\")";
  if (rotary.part * static_cast<double>(head_dim) < 1)
    refuse(config, fmt::format("\"partial_rotary_factor\" is {} and \"head_dim\" {}{}: no channel of a head "
                               "would turn",
                               rotary.part, head_dim, origin));
  refuse(config, fmt::format("\"head_dim\" is {}{}, must be even: rotary positions turn pairs of channels",
                             head_dim, origin));
}

}  // namespace

std::optional<int64_t> RotaryDecoderConfig::padding_row() const {
  return row_of(pad_token_id, vocab_size);
}

void RotaryDecoderConfig::read(const Config& config, std::string_view family, std::string_view type) {
  refuse_unsupported(config, family, type);
  require_causal(config, family);
  vocab_size = positive(config, "vocab_size", vocab_size);
  hidden_size = positive(config, "hidden_size", hidden_size);
  intermediate_size = positive(config, "intermediate_size", intermediate_size);
  num_hidden_layers = num_layers(config, "num_hidden_layers", num_hidden_layers);
  num_attention_heads = positive(config, "num_attention_heads", num_attention_heads);
  if (num_key_value_heads == 0 || is_null(config, "num_key_value_heads"))
    num_key_value_heads = num_attention_heads;
  num_key_value_heads = positive(config, "num_key_value_heads", num_key_value_heads);
  require_multiple(config, "num_attention_heads", num_attention_heads, "num_key_value_heads",
                   num_key_value_heads);
  if (head_dim == 0 && !config.has("head_dim")) {
    require_multiple(config, "hidden_size", hidden_size, "num_attention_heads", num_attention_heads);
    head_dim = hidden_size / num_attention_heads;
  }
  head_dim = positive(config, "head_dim", head_dim);
  max_position_embeddings = positive(config, "max_position_embeddings", max_position_embeddings);
  hidden_act = activation_name(config, "hidden_act", hidden_act);
  rms_norm_eps = positive_real(config, "rms_norm_eps", rms_norm_eps);
  initializer_range = not_negative(config, "initializer_range", initializer_range);
  attention_dropout = probability(config, "attention_dropout", attention_dropout);
  classifier_dropout =
      probability(config, "classifier_dropout", probability(config, "hidden_dropout", classifier_dropout));
  classifier_bias = config.flag("token_classification_bias", classifier_bias);
  tie_word_embeddings = config.flag("tie_word_embeddings", tie_word_embeddings);
  pad_token_id = optional_token_id(config, "pad_token_id", std::nullopt, vocab_size, -vocab_size);
  rotary = read_rotary(config, *this);
  labels = read_labels(config);
}

int64_t RotaryDecoderConfig::read_window(const Config& config, int64_t otherwise) {
  return is_null(config, "sliding_window") ? 0 : positive(config, "sliding_window", otherwise);
}

void RotaryDecoderConfig::read_switched_windows(const Config& config) {
  read_windows(config, config.flag("use_sliding_window", false) ? read_window(config, 4096) : 0,
               config.integer("max_window_layers", 28));
}

void RotaryDecoderConfig::read_windows(const Config& config, int64_t window, int64_t first) {
  windows.assign(static_cast<size_t>(num_hidden_layers), 0);
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) {
    std::fill(windows.begin() + std::clamp<int64_t>(first, 0, num_hidden_layers), windows.end(), window);
    return;
  }
  if (types.size() != windows.size())
    refuse(config, fmt::format("\"layer_types\" has {} entries, but \"num_hidden_layers\" is {}",
                               types.size(), num_hidden_layers));
  for (size_t layer = 0; layer < types.size(); ++layer) {
    const std::string& type = types[layer];
    // Files of transformers before 5 may call it "attention".
    if (type == "full_attention" || type == "attention") continue;
    if (type != "sliding_attention")
      fail(WEFT_UNIMPLEMENTED,
           "{}: \"layer_types\" has \"{}\" for layer {}; Weft has \"full_attention\" and "
           "\"sliding_attention\"",
           config.origin(), printable(type, 60), layer);
    if (window == 0)
      refuse(config,
             fmt::format("\"layer_types\" has \"sliding_attention\" for layer {}, but the configuration "
                         "has no sliding window (\"sliding_window\", \"use_sliding_window\")",
                         layer));
    windows[layer] = window;
  }
}

}  // namespace weft::nn
