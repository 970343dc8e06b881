// A kernel that needs more registers than its launch bounds leave, for the test that such a kernel does not
// pass.
__global__ void __launch_bounds__(1024, 2) spilling_kernel(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = values[i] * values[63 - i];
}
