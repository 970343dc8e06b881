// Converts element types between libtorch and the ABI.
#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "../error.hpp"
#include "../types.h"

namespace weft {
inline namespace sdk_v0 {

// Also at::ScalarType.
using torch::headeronly::ScalarType;

// Returns the code of a dtype, WEFT_F32 and so on. Throws UNIMPLEMENTED for a dtype without one.
inline uint32_t dtype_code(ScalarType type) {
  switch (type) {
    case ScalarType::Double:
      return WEFT_F64;
    case ScalarType::Float:
      return WEFT_F32;
    case ScalarType::Half:
      return WEFT_F16;
    case ScalarType::BFloat16:
      return WEFT_BF16;
    case ScalarType::Long:
      return WEFT_I64;
    case ScalarType::Int:
      return WEFT_I32;
    case ScalarType::Short:
      return WEFT_I16;
    case ScalarType::Char:
      return WEFT_I8;
    case ScalarType::Byte:
      return WEFT_U8;
    case ScalarType::Bool:
      return WEFT_BOOL;
    default:
      throw Error(WEFT_UNIMPLEMENTED,
                  std::string("no dtype of Weft for ") + torch::headeronly::toString(type));
  }
}

// Returns the dtype of a code. Throws UNIMPLEMENTED for an unknown one.
inline ScalarType scalar_type(uint32_t code) {
  switch (code) {
    case WEFT_F64:
      return ScalarType::Double;
    case WEFT_F32:
      return ScalarType::Float;
    case WEFT_F16:
      return ScalarType::Half;
    case WEFT_BF16:
      return ScalarType::BFloat16;
    case WEFT_I64:
      return ScalarType::Long;
    case WEFT_I32:
      return ScalarType::Int;
    case WEFT_I16:
      return ScalarType::Short;
    case WEFT_I8:
      return ScalarType::Char;
    case WEFT_U8:
      return ScalarType::Byte;
    case WEFT_BOOL:
      return ScalarType::Bool;
    default:
      throw Error(WEFT_UNIMPLEMENTED, "dtype code " + std::to_string(code) + " is unknown to this version");
  }
}

// Returns the floating-point dtype that options call "fp64", "fp32", "bf16" or "fp16"; nothing for other
// names.
inline std::optional<ScalarType> dtype_named(std::string_view name) {
  if (name == "fp64") return ScalarType::Double;
  if (name == "fp32") return ScalarType::Float;
  if (name == "bf16") return ScalarType::BFloat16;
  if (name == "fp16") return ScalarType::Half;
  return std::nullopt;
}

}  // namespace sdk_v0
}  // namespace weft
