// Converts element types between libtorch and the ABI.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "../error.hpp"
#include "../types.h"

namespace weft {
inline namespace sdk_v0 {

// Returns the code of a dtype, WEFT_F32 and so on. Throws UNIMPLEMENTED for a dtype without one.
inline uint32_t dtype_code(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return WEFT_F64;
    case at::kFloat:
      return WEFT_F32;
    case at::kHalf:
      return WEFT_F16;
    case at::kBFloat16:
      return WEFT_BF16;
    case at::kLong:
      return WEFT_I64;
    case at::kInt:
      return WEFT_I32;
    case at::kShort:
      return WEFT_I16;
    case at::kChar:
      return WEFT_I8;
    case at::kByte:
      return WEFT_U8;
    case at::kBool:
      return WEFT_BOOL;
    default:
      throw Error(WEFT_UNIMPLEMENTED, std::string("no dtype of Weft for ") + c10::toString(type));
  }
}

// Returns the dtype of a code. Throws UNIMPLEMENTED for an unknown one.
inline at::ScalarType scalar_type(uint32_t code) {
  switch (code) {
    case WEFT_F64:
      return at::kDouble;
    case WEFT_F32:
      return at::kFloat;
    case WEFT_F16:
      return at::kHalf;
    case WEFT_BF16:
      return at::kBFloat16;
    case WEFT_I64:
      return at::kLong;
    case WEFT_I32:
      return at::kInt;
    case WEFT_I16:
      return at::kShort;
    case WEFT_I8:
      return at::kChar;
    case WEFT_U8:
      return at::kByte;
    case WEFT_BOOL:
      return at::kBool;
    default:
      throw Error(WEFT_UNIMPLEMENTED, "dtype code " + std::to_string(code) + " is unknown to this version");
  }
}

// Returns the floating-point dtype that options call "fp64", "fp32", "bf16" or "fp16"; nothing for other
// names.
inline std::optional<at::ScalarType> dtype_named(std::string_view name) {
  if (name == "fp64") return at::kDouble;
  if (name == "fp32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  return std::nullopt;
}

}  // namespace sdk_v0
}  // namespace weft
