// Hugging Face's Llama classes as Weft models (Touvron et al., LLaMA: open and efficient foundation language
// models, arXiv:2302.13971).
#pragma once

#include <memory>
#include <string_view>

#include "weft/nn/rotary_decoder.hpp"

namespace weft::llama {

// Reads a config.json of transformers 4 or 5 with the defaults of Hugging Face's LlamaConfig.
nn::RotaryDecoderConfig read_config(const Config& config);

// Returns the model class called `architecture` on the meta device. Throws NOT_FOUND naming all classes.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::llama
