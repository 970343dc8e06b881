#include "faults.hpp"

#include "cuda/device.cuh"
#include "cuda/reduce.cuh"
#include "kernel_test.hpp"

namespace weft::testing {

namespace {

namespace cuda = kernels::cuda;
using cuda::kWholeWarp;

// Sums that every thread should get. The barriers are what block_reduce has.
template <bool kFirst, bool kSecond>
__device__ float sum_with_barriers(float value) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = cuda::warp_reduce(value, cuda::Plus{});
  if (lane == 0) of_warp[threadIdx.x / 32] = value;
  if (kFirst) __syncthreads();
  value = cuda::warp_reduce(lane < warps ? of_warp[lane] : 0.0f, cuda::Plus{});
  if (kSecond) __syncthreads();
  return value;
}

// Reads what another warp may not have written yet.
__global__ void missing_barrier(const float* in, float* out) {
  out[threadIdx.x] = sum_with_barriers<false, true>(in[threadIdx.x]);
}
// Writes again what another warp may not have read yet.
__global__ void missing_second_barrier(const float* in, float* out) {
  const float sum = sum_with_barriers<true, false>(in[threadIdx.x]);
  out[threadIdx.x] = sum + 0 * sum_with_barriers<true, false>(sum + 1);
}
// Lanes of one warp, which happen to run in step on old GPUs.
__global__ void missing_syncwarp(const float* in, float* out) {
  __shared__ float values[kFaultThreads];
  values[threadIdx.x] = in[threadIdx.x ^ 1];
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
// What is written again is the same, so that no order of threads shows the race.
__global__ void lucky_race(const float* in, float* out) {
  __shared__ float first;
  if (threadIdx.x == 0) first = in[0];
  __syncthreads();
  if (threadIdx.x == 32) first = in[0];
  out[threadIdx.x] = in[threadIdx.x] + 0 * first;
}
__global__ void divergent_barrier(const float* in, float* out) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void two_barriers(const float* in, float* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

// A sum that leaves out the last warp.
__global__ void wrong_reduction(const float* in, float* out) {
  const float value = threadIdx.x < kFaultThreads - 32 ? in[threadIdx.x] : 0;
  out[threadIdx.x] = cuda::block_sum(value);
}
// A sum whose bits depend on the order of threads.
__global__ void atomic_sum(const float* in, float* out) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = total;
}
__global__ void uninitialised(const float* in, float* out) {
  __shared__ float total;
  atomicAdd(&total, in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = total;
}

__global__ void static_overflow(const float* in, float* out) {
  __shared__ float values[kFaultThreads];
  if (threadIdx.x == 0) values[0] = in[0];
  values[threadIdx.x + 1] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void dynamic_overflow(const float* in, float* out) {
  WEFT_DYNAMIC_SHARED(float, values);
  values[threadIdx.x + 1] = in[threadIdx.x];
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void write_past_the_end(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == kFaultThreads - 1) out[threadIdx.x + 1] = 0;
}
__global__ void read_past_the_end(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + 0 * in[threadIdx.x + 1];
}
__global__ void write_before_the_start(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) out[-1] = 0;
}

__global__ void divergent_shuffle(const float* in, float* out) {
  float value = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) value += 0 * __shfl_xor_sync(kWholeWarp, value, 1);
  __syncwarp();
  out[threadIdx.x] = value;
}
__global__ void mask_without_caller(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + 0 * __shfl_xor_sync(0x0000FFFF, in[threadIdx.x], 1);
}
__global__ void lane_outside_mask(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) out[threadIdx.x] += 0 * __shfl_xor_sync(0x0000FFFF, in[threadIdx.x], 16);
}

__global__ void misaligned(const float* in, float* out) {
  struct alignas(16) Four {
    float values[4];
  };
  out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) cuda::set_vector_at(out + 1, Four{{in[1], in[2], in[3], in[4]}});
}

Results results_of(const Fault& fault, const std::vector<float>& numbers) {
  Buffer<float> in(numbers), out(kFaultThreads);
  cuda::launch(fault.kernel, 1, kFaultThreads, fault.shared_bytes, nullptr,
               static_cast<const float*>(in.data()), out.data());
  if (!out.damage().empty()) throw on_host::Error("writes " + out.damage());
  return {out.values()};
}

}  // namespace

const std::vector<Fault>& faults() {
  constexpr size_t kShared = kFaultThreads * sizeof(float);
#define WEFT_FAULT(name, sums, ...) \
  { #name, name, sums, ##__VA_ARGS__ }
  static const std::vector<Fault> all = {
      WEFT_FAULT(missing_barrier, true),
      WEFT_FAULT(missing_second_barrier, true),
      WEFT_FAULT(missing_syncwarp, false),
      WEFT_FAULT(lucky_race, false),
      WEFT_FAULT(divergent_barrier, false),
      WEFT_FAULT(two_barriers, false),
      WEFT_FAULT(wrong_reduction, true),
      WEFT_FAULT(atomic_sum, true),
      WEFT_FAULT(uninitialised, true),
      WEFT_FAULT(static_overflow, false),
      WEFT_FAULT(dynamic_overflow, false, kShared),
      WEFT_FAULT(write_past_the_end, false),
      WEFT_FAULT(read_past_the_end, false),
      WEFT_FAULT(write_before_the_start, false),
      WEFT_FAULT(divergent_shuffle, false),
      WEFT_FAULT(mask_without_caller, false),
      WEFT_FAULT(lane_outside_mask, false),
      WEFT_FAULT(misaligned, false),
  };
  return all;
}

std::string found_in(const Fault& fault) {
  using on_host::Order;
  const std::vector<float> numbers = normal(kFaultThreads, 1);
  double sum = 0;
  for (const float number : numbers) sum += exact(number);
  Results before;
  for (const Order order : {Order::kForward, Order::kReverse, Order::kShuffled}) {
    on_host::settings().order = order;
    Results results;
    try {
      results = results_of(fault, numbers);
    } catch (const on_host::Error& error) {
      return error.what();
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      if (!(std::abs(results[0][i] - (fault.sums ? sum : exact(numbers[i]))) < 1e-4))
        return "a wrong result: " + std::to_string(results[0][i]);
    if (!before.empty() && results != before) return "the order of threads changes the result";
    before = results;
  }
  return {};
}

}  // namespace weft::testing
