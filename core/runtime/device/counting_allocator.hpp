// Counts the bytes of CPU tensors. The counts are exact and deterministic, so that tests can compare them
// with formulas.
#pragma once

#include <cstdint>

namespace weft {

// Makes the counting allocator libtorch's CPU allocator. Tensors that exist before are not counted. Later
// calls do nothing.
void count_memory();

int64_t allocated_bytes();       // in use now
int64_t peak_allocated_bytes();  // the most in use since the last reset
void reset_peak_allocated_bytes();

// The same for tensors that are in no pool (memory/pools.hpp), such as activations.
int64_t unpooled_bytes();
int64_t peak_unpooled_bytes();
void reset_peak_unpooled_bytes();

// Adds `bytes` of pooled memory, negative when it is freed, to the allocated bytes. Pools call it.
void count_pooled(int64_t bytes);

}  // namespace weft
