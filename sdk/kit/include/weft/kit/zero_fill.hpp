// How parameters fill the buckets of ZeRO, for the buckets and for estimates.
#pragma once

#include <cstdint>

namespace weft::kit {

// Parameters fill buckets in reverse order: a bucket closes before it would exceed `capacity` elements; a
// larger parameter has one to itself. Parameters and parts begin at multiples of 64 bytes, as fresh tensors
// do, so that kernels are as fast, and as reproducible, on them.
struct ZeroFill {
  int64_t capacity, ranks, alignment;  // in elements

  static int64_t alignment_of(int64_t element_bytes) { return 64 / element_bytes; }
  bool takes(int64_t size, int64_t count) const { return size == 0 || size + count <= capacity; }
  // Return the size of a bucket after a parameter, and when it is closed.
  int64_t append(int64_t size, int64_t count) const { return round_up(size + count, alignment); }
  int64_t close(int64_t size) const { return round_up(size, alignment * ranks); }

 private:
  static int64_t round_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  }
};

}  // namespace weft::kit
