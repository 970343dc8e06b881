// Assigns parameters to the buckets of ZeRO. Used by the buckets and by estimates.
#pragma once

#include <cstdint>

namespace weft::plugin::kit {

// Parameters are assigned in reverse order. A bucket closes before it would exceed `capacity` elements; a
// larger parameter has its own bucket. Parameters and parts begin at multiples of 64 bytes, as newly
// allocated tensors do, so that kernels are as fast on them and give the same bits.
struct ZeroFill {
  int64_t capacity, ranks, alignment;  // in elements

  static int64_t alignment_of(int64_t element_bytes) { return 64 / element_bytes; }
  bool takes(int64_t size, int64_t count) const { return size == 0 || size + count <= capacity; }
  // Return the size of a bucket after a parameter is appended, and after the bucket is closed.
  int64_t append(int64_t size, int64_t count) const { return round_up(size + count, alignment); }
  int64_t close(int64_t size) const { return round_up(size, alignment * ranks); }

 private:
  static int64_t round_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  }
};

}  // namespace weft::plugin::kit
