// The model library of T5, tier `native`: a factory of the four classes.
#include <string_view>

#include "t5_model.hpp"
#include "weft/define_plugin.h"
#include "weft/nn/model.hpp"

namespace {

std::shared_ptr<weft::nn::Model> create(const weft::Config& config, std::string_view architecture,
                                        at::ScalarType dtype) {
  return std::make_shared<weft::t5::T5Model>(config, weft::t5::find_architecture(architecture), dtype);
}

const weft::nn::ModelFactory kFactory = {sizeof(weft::nn::ModelFactory), create};

const void* get_factory(weft_str id) {
  return std::string_view(id.data, id.size) == weft::nn::kModelFactory ? &kFactory : nullptr;
}

}  // namespace

WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, get_factory)
