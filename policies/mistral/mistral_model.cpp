#include "mistral_model.hpp"

#include <algorithm>

#include "weft/nn/config_values.hpp"

namespace weft::mistral {

nn::RotaryDecoderConfig read_config(const Config& config) {
  nn::RotaryDecoderConfig mistral;
  mistral.intermediate_size = 14336;
  mistral.num_key_value_heads = 8;
  mistral.max_position_embeddings = 131072;
  mistral.read(config, "Mistral", "mistral");
  // Every layer has the window. Hugging Face's Mistral ignores "layer_types"; a list that differs from what
  // it computes is of another model.
  const int64_t window = nn::RotaryDecoderConfig::read_window(config, 4096);
  mistral.read_windows(config, window, 0);
  if (std::count(mistral.windows.begin(), mistral.windows.end(), window) != mistral.num_hidden_layers)
    nn::refuse(config,
               "\"layer_types\" has \"full_attention\", but every layer of Mistral has the window of "
               "\"sliding_window\"; Ministral has both, which Weft does not have");
  return mistral;
}

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return nn::make_rotary_decoder(config, read_config(config), "Mistral", architecture, dtype);
}

}  // namespace weft::mistral
