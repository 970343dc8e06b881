// GLM-4.5 without experts, as an author of a family writes it: rotary positions of a part of each head.
#include "weft/nn/rotary_decoder.hpp"

namespace weft::glm4_moe {

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  nn::RotaryDecoderConfig glm;
  glm.partial_rotary_factor = 0.5;
  glm.read(config, "Glm4Moe", "glm4_moe");
  glm.input_bias = config.flag("attention_bias", false);
  glm.norms_heads = config.flag("use_qk_norm", false);
  return nn::make_rotary_decoder(config, glm, "Glm4Moe", architecture, dtype);
}

}  // namespace weft::glm4_moe
