// Formulas that a CPU loop and a CUDA kernel share. Both compile them without contraction to fused
// multiply-add. Those that use no function of libm but the square root give the same bits on both.
#pragma once

// The host's are always inlined, so that a loop over them becomes vectors for whatever instruction set.
#ifdef __CUDACC__
#define WEFT_FORMULA __host__ __device__ inline
#else
#define WEFT_FORMULA __attribute__((always_inline)) inline
#endif
