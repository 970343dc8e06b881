// Formulas that a CPU loop and a CUDA kernel share. Both compile them without contraction to fused
// multiply-add. Those that use no function of libm but the square root give the same bits on both.
#pragma once

// The host's are inlined even where a loop is compiled for another instruction set, so that the loop becomes vectors.
#ifdef __CUDACC__
#define WEFT_FORMULA __host__ __device__ inline
#else
#define WEFT_FORMULA __attribute__((always_inline)) inline
#endif
