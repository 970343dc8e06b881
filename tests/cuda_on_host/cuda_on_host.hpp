// CUDA kernels as ordinary C++, for device.cuh: launch() runs a grid on the calling thread, block after
// block. The threads of a block are fibers that switch only where CUDA lets threads meet (barriers, warp
// collectives), so every run can be repeated. What a GPU leaves undefined is thrown as on_host::Error. It
// needs no CUDA header.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cuda/stream.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ON_HOST_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ON_HOST_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_ON_HOST_TSAN
#endif
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Blocks run one at a time, so a block's shared variables can be static. In a section of their own they are
// refilled with NaN before each block. AddressSanitizer leaves such sections alone, and in its builds the red
// zones around plain statics matter more.
#if defined(WEFT_ON_HOST_ASAN) || !defined(__clang__)
#define __shared__ static
#else
#define __shared__ static __attribute__((section("cuda_shared")))
#endif
#define WEFT_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(on_host::dynamic_shared())

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace on_host {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// In which order threads and blocks get their turns. A kernel without races, whose blocks are independent,
// gives the same bits in each.
enum class Order { kForward, kReverse, kShuffled };

struct Settings {
  Order order = Order::kForward;
  uint32_t seed = 1;                          // of kShuffled
  size_t shared_bytes_per_block = 163 << 10;  // of sm_80; sm_90 has 227 KiB
};
Settings& settings();

// Where a thread waits.
struct Site {
  const char* file;
  int line;
};

enum class Collective : uint8_t { kBarrier, kSyncWarp, kShuffle, kBallot };

// Waits for all threads of the block.
void meet_block(Site site);
// Waits for the lanes of `mask`. A shuffle returns the `value` of lane `source`, a ballot the lanes whose
// value is not 0.
uint64_t meet_warp(Collective kind, uint32_t mask, uint64_t value, int source, Site site);
int lane_id();

void* dynamic_shared();
// Ends the grid with an Error that names the thread.
[[noreturn]] void fail(const std::string& what, Site site);
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel);

}  // namespace on_host

#include "intrinsics.hpp"

namespace weft::kernels::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared_bytes, Stream,
            const Arguments&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "kernel parameters are limited to 4 KiB");
  if (blocks < 1 || blocks > 0x7FFFFFFF)
    throw on_host::Error("a grid of " + std::to_string(blocks) + " blocks");
  on_host::run_grid(dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), shared_bytes,
                    [&] { kernel(static_cast<Parameters>(arguments)...); });
}

// The harness checks these itself: -fsanitize=alignment says nothing about copies of structs.
template <class Vector>
void require_alignment(const void* address, on_host::Site site) {
  if (reinterpret_cast<uintptr_t>(address) % alignof(Vector) != 0) on_host::fail("a misaligned vector", site);
}
template <class Vector>
Vector vector_at(const void* address, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  require_alignment<Vector>(address, {file, line});
  return *static_cast<const Vector*>(address);
}
template <class Vector>
void set_vector_at(void* address, const Vector& value, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  require_alignment<Vector>(address, {file, line});
  *static_cast<Vector*>(address) = value;
}

}  // namespace weft::kernels::cuda
