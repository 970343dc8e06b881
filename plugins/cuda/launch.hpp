// What the operators need to start a kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <vector>

#include "cuda/stream.hpp"

namespace weft::cuda {

inline kernels::cuda::Stream stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

// Calls `f` with a value of the C++ type of `type`, for the types of the kernels of layers.
template <class F>
void with_kernel_type(const char* name, at::ScalarType type, const F& f) {
  switch (type) {
    case at::kFloat:
      return f(float{});
    case at::kHalf:
      return f(c10::Half{});
    case at::kBFloat16:
      return f(c10::BFloat16{});
    default:
      TORCH_CHECK(false, "weft::", name, ": a tensor is ", type,
                  ", but the kernels for CUDA take Float, Half and ", "BFloat16");
  }
}

// Tables of a launch. They are copied to the device together, from page-locked memory, so the host does not
// wait.
class Tables {
 public:
  // Returns the place of a table, for at().
  template <class T>
  size_t add(const std::vector<T>& rows) {
    const size_t place = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(place + rows.size() * sizeof(T));
    if (!rows.empty()) std::memcpy(bytes_.data() + place, rows.data(), rows.size() * sizeof(T));
    return place;
  }
  void copy_to(c10::Device device) {
    const auto size = static_cast<int64_t>(bytes_.size());
    const at::Tensor pinned = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    std::memcpy(pinned.data_ptr(), bytes_.data(), bytes_.size());
    memory_ = pinned.to(device, /*non_blocking=*/true);
  }
  template <class T>
  const T* at(size_t place) const {
    return reinterpret_cast<const T*>(static_cast<const char*>(memory_.const_data_ptr()) + place);
  }

 private:
  std::vector<char> bytes_;
  at::Tensor memory_;  // freed in the order of the stream
};

}  // namespace weft::cuda
