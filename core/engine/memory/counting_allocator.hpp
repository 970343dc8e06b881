// Counts the bytes of CPU tensors: exact and deterministic, so memory formulas can be tests.
#pragma once

#include <cstdint>

namespace weft {

// Makes the counting allocator libtorch's CPU allocator. Once per process, before the tensors that are to be
// counted.
void count_memory();

int64_t allocated_bytes();       // now
int64_t peak_allocated_bytes();  // the most since the last reset
void reset_peak_allocated_bytes();

// The part of it that is in no pool (memory/pools.hpp): what computing takes, such as activations.
int64_t unpooled_bytes();
int64_t peak_unpooled_bytes();
void reset_peak_unpooled_bytes();

// For allocators of their own: `bytes` more, or fewer, of pooled memory.
void count_pooled(int64_t bytes);

}  // namespace weft
