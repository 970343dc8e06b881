// What a kernel may use, and how it is launched. nvcc sees CUDA; another compiler sees cuda_on_host.hpp of
// the tests, which runs the same source on the host.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "cuda/stream.hpp"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#include <cstring>

// Dynamic shared memory of a launch, 16-byte aligned, as an array of `type`.
#define WEFT_DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char weft_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(weft_shared_bytes)

namespace weft::kernels::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(status));
}

// Runs `kernel` on `stream` and does not wait for it. Throws std::runtime_error if it cannot start.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared_bytes, Stream stream,
            const Arguments&... arguments) {
  // A block has 48 KiB without asking, of which the kernel's static memory is a part.
  constexpr size_t kWithoutAsking = 32 << 10;
  if (shared_bytes > kWithoutAsking)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "a kernel's shared memory");
  kernel<<<dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), shared_bytes, stream>>>(
      static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "a kernel's launch");
}

// The Vector at `address`, which must be aligned for it.
template <class Vector>
__device__ Vector vector_at(const void* address) {
  return *static_cast<const Vector*>(address);
}

// Writes a Vector to device memory. An assignment would leave it to nvcc whether it becomes one store, and
// beside a loop of single stores it often does not.
template <class Vector>
__device__ void set_vector_at(void* address, const Vector& value) {
  constexpr size_t kBytes = sizeof(Vector);
  using Word = std::conditional_t<
      kBytes % 16 == 0, uint4,
      std::conditional_t<kBytes == 8, uint2,
                         std::conditional_t<kBytes == 4, unsigned,
                                            std::conditional_t<kBytes == 2, unsigned short, unsigned char>>>>;
  static_assert(kBytes % sizeof(Word) == 0);
  Word words[kBytes / sizeof(Word)];
  memcpy(words, &value, kBytes);
#pragma unroll
  for (size_t i = 0; i < kBytes / sizeof(Word); ++i) __stwb(static_cast<Word*>(address) + i, words[i]);
}

}  // namespace weft::kernels::cuda

#else
#include <cuda_on_host.hpp>
#endif

namespace weft::kernels::cuda {

// The blocks of a grid for `count` pieces of work. Throws std::invalid_argument if there are too many.
inline int64_t grid_of(int64_t count, const char* what) {
  constexpr int64_t kMost = 0x7FFFFFFF;
  if (count > kMost)
    throw std::invalid_argument(std::to_string(count) + " " + what + " in one launch; a grid has at most " +
                                std::to_string(kMost) + " blocks: split them over several launches");
  return count;
}

}  // namespace weft::kernels::cuda
