#include "collectives.hpp"

#include "cuda/device.cuh"

namespace weft::testing {

namespace {

using kernels::cuda::launch;

constexpr uint32_t kAll = 0xFFFFFFFF;

__global__ void collectives_kernel(CollectivesResult* results) {
  const int lane = threadIdx.x % 32;
  CollectivesResult result;
  int sum = lane + 1;  // inclusive scan
  for (int distance = 1; distance < 32; distance *= 2) {
    const int below = __shfl_up_sync(kAll, sum, distance);
    if (lane >= distance) sum += below;
  }
  result.scan = sum;
  result.down = __shfl_down_sync(kAll, double(lane), 3);
  result.broadcast = __shfl_sync(kAll, int64_t{lane} << 40, 5);
  result.segment = __shfl_xor_sync(kAll, lane, 9, 8);
  result.odd = __ballot_sync(kAll, lane % 2);
  result.any = __any_sync(kAll, lane == 7);
  result.all = __all_sync(kAll, lane < 31);
  result.half = 0;
  if (lane < 16) result.half = __shfl_xor_sync(0x0000FFFF, lane, 1);
  results[threadIdx.x + blockIdx.x * blockDim.x] = result;
}

__global__ void histogram_kernel(const int* values, int count, int* bins) {
  __shared__ int of_block[kBins];
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) of_block[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < count; i += blockDim.x * gridDim.x)
    atomicAdd(&of_block[values[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) atomicAdd(&bins[i], of_block[i]);
}

__global__ void rotate_kernel(float* values) {
  __shared__ float of_block[256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int turn = 0; turn < 3; ++turn) {
    of_block[threadIdx.x] = values[threadIdx.x];
    __syncwarp();
    values[threadIdx.x] = of_block[warp * 32 + (lane + 1) % 32];
    __syncwarp();
  }
}

}  // namespace

void collectives(CollectivesResult* results) {
  launch(collectives_kernel, 2, 64, 0, nullptr, results);
}
void histogram(const int* values, int count, int* bins) {
  launch(histogram_kernel, 3, 96, 0, nullptr, values, count, bins);
}
void rotate_warps(float* values) {
  launch(rotate_kernel, 1, 256, 0, nullptr, values);
}

}  // namespace weft::testing
