// The shape of rotary positions.
#pragma once

#include <cstdint>

#include "formula/formula.hpp"

namespace weft::kernels {

struct RotaryShape {
  int64_t batch, positions, heads, size;  // B, T, H, D (channels of a head)
  // The tables are (B, T, R / 2), or (T, R / 2) for all of the batch.
  bool table_for_all;
  int64_t still = 0;  // the last channels of a head, which do not turn; R = D - still is even

  WEFT_FORMULA int64_t half() const { return (size - still) / 2; }
};

}  // namespace weft::kernels
