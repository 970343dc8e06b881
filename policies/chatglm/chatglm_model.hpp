// The ChatGLM2 classes as Weft models (Team GLM, ChatGLM: a family of large language models from GLM-130B to
// GLM-4 all tools, arXiv:2406.12793). Names and layouts of parameters are those of the published code.
#pragma once

#include <memory>
#include <string_view>

#include "chatglm_config.hpp"
#include "weft/nn/model.hpp"

namespace weft::chatglm {

// Returns the model class called `architecture` on the meta device. Throws NOT_FOUND naming all classes.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::chatglm
