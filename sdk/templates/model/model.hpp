// A decoder of text: blocks of causal attention and an MLP, each behind a norm.
#pragma once

#include <memory>
#include <string_view>

#include <weft/nn/model.hpp>

namespace template_name_family {

// Returns the model class called `architecture` on the meta device. Throws NOT_FOUND naming all classes, and
// INVALID_ARGUMENT naming what is wrong in the configuration.
std::shared_ptr<weft::nn::Model> make_model(const weft::Config& config, std::string_view architecture,
                                            at::ScalarType dtype);

}  // namespace template_name_family
