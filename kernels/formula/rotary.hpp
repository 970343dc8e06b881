// The shape of rotary positions.
#pragma once

#include <cstdint>

namespace weft::kernels {

struct RotaryShape {
  int64_t batch, positions, heads, size;  // B, T, H, D (channels of a head); D is even
  // The tables are (B, T, D / 2), or (T, D / 2) for all of the batch.
  bool table_for_all;
};

}  // namespace weft::kernels
