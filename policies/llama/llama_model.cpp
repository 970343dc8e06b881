#include "llama_model.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::llama {

nn::RotaryDecoderConfig read_config(const Config& config) {
  nn::RotaryDecoderConfig llama;
  llama.read(config, "Llama", "llama");
  nn::require_multiple(config, "hidden_size", llama.hidden_size, "num_attention_heads",
                       llama.num_attention_heads);
  llama.input_bias = llama.output_bias = config.flag("attention_bias", false);
  llama.mlp_bias = config.flag("mlp_bias", false);
  llama.answer_base = "transformer";
  return llama;
}

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return nn::make_rotary_decoder(config, read_config(config), "Llama", architecture, dtype);
}

}  // namespace weft::llama
