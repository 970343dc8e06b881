// A library of operations, tier `native`, around the function that finds them:
//
//   const weft::plan::Operation* find_operation(std::string_view id);  // as weft::plan::OperationFactory
//   says WEFT_OPERATION_LIBRARY(find_operation)
#pragma once

#include <string_view>

#include "weft/define_plugin.h"
#include "weft/operation.hpp"

// Id and version come from plugin.json through weft_add_plugin().
#define WEFT_OPERATION_LIBRARY(find_operation)                                                        \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                             \
    static constexpr weft::plan::OperationFactory kFactory = {sizeof(weft::plan::OperationFactory),   \
                                                              find_operation};                        \
    return std::string_view(id.data, id.size) == weft::plan::kOperationFactory ? &kFactory : nullptr; \
  }                                                                                                   \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft_find_factory)
