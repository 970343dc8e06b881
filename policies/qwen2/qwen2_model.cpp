#include "qwen2_model.hpp"

namespace weft::qwen2 {

nn::RotaryDecoderConfig read_config(const Config& config) {
  nn::RotaryDecoderConfig qwen;
  qwen.vocab_size = 151936;
  qwen.intermediate_size = 22016;
  qwen.num_key_value_heads = 32;
  qwen.max_position_embeddings = 32768;
  qwen.read(config, "Qwen2", "qwen2");
  qwen.input_bias = true;
  qwen.answer_base = "transformer";
  qwen.read_switched_windows(config);
  return qwen;
}

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return nn::make_rotary_decoder(config, read_config(config), "Qwen2", architecture, dtype);
}

}  // namespace weft::qwen2
