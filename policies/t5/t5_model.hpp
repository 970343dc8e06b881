// The T5 classes of Hugging Face as Weft models.
#pragma once

#include <memory>
#include <string_view>

#include "weft/nn/model.hpp"

namespace weft::t5 {

// Makes the class of that name on the meta device. Throws NOT_FOUND naming the four.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::t5
