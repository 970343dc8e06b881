// Reads the values of tensors, wherever their memory is.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {
inline namespace sdk_v0 {

// Returns the elements of a tensor, whose dtype is that of T, in the order of its indices. The host waits for
// a tensor that is on another device.
template <class T>
std::vector<T> values_of(const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu().contiguous();
  const T* const first = here.const_data_ptr<T>();
  return std::vector<T>(first, first + here.numel());
}

}  // namespace sdk_v0
}  // namespace weft
