// Formulas that a CPU loop and a CUDA kernel share. Both compile them without contraction to fused
// multiply-add. Those that use no function of libm but the square root give the same bits on both.
#pragma once

#ifdef __CUDACC__
#define WEFT_FORMULA __host__ __device__ inline
#else
#define WEFT_FORMULA inline
#endif
