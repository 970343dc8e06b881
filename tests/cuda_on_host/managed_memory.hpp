// Memory of tests that run on a GPU: GuardedMemory (guarded_memory.hpp) that host and device read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace on_gpu {

inline void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Waits for all kernels.
inline void synchronize() {
  check(cudaDeviceSynchronize());
}

class ManagedMemory {
 public:
  ManagedMemory(size_t bytes, size_t past) : bytes_(bytes), before_(kGuard + past) {
    check(cudaMallocManaged(&memory_, before_ + bytes + kGuard));
    std::memset(memory_, kPoison, before_ + bytes + kGuard);
  }
  ~ManagedMemory() { cudaFree(memory_); }
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;

  void* data() const { return static_cast<unsigned char*>(memory_) + before_; }
  std::string damage() const {
    synchronize();
    const auto* const bytes = static_cast<const unsigned char*>(memory_);
    for (size_t i = 0; i < before_; ++i)
      if (bytes[i] != kPoison) return std::to_string(before_ - i) + " bytes before the start";
    for (size_t i = 0; i < kGuard; ++i)
      if (bytes[before_ + bytes_ + i] != kPoison) return std::to_string(i) + " bytes past the end";
    return {};
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr int kPoison = 0xFF;
  void* memory_ = nullptr;
  size_t bytes_, before_;
};

}  // namespace on_gpu
