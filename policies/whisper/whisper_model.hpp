// Hugging Face's Whisper classes as Weft models.
#pragma once

#include <memory>
#include <string_view>

#include "weft/nn/model.hpp"

namespace weft::whisper {

// Returns the model class called `architecture` on the meta device. Throws NOT_FOUND naming all classes.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::whisper
