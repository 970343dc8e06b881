// Defines the entry points of a family's model library (tier `native`) from the function that creates its
// models:
//
//   std::shared_ptr<weft::nn::Model> make_model(const weft::Config&, std::string_view architecture,
//                                               at::ScalarType);  // as weft::nn::ModelFactory says
//   WEFT_MODEL_FAMILY(make_model)
#pragma once

#include <string_view>

#include "weft/define_plugin.h"
#include "weft/nn/model.hpp"

// weft_add_plugin() passes the id and version of plugin.json to the compiler.
#define WEFT_MODEL_FAMILY(make_model)                                                                \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                            \
    static constexpr weft::nn::ModelFactory kFactory = {sizeof(weft::nn::ModelFactory), make_model}; \
    return std::string_view(id.data, id.size) == weft::nn::kModelFactory ? &kFactory : nullptr;      \
  }                                                                                                  \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft_find_factory)
