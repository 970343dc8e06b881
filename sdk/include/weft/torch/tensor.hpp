// The tensors of a plugin in C++, and how they cross the ABI. In tier torch they are at::Tensor. In tier
// stable
// (`weft_add_plugin(... TIER stable)`) they are torch::stable::Tensor, and the plugin uses libtorch's stable
// ABI alone: one binary runs with TORCH_MIN and any later libtorch.
#pragma once

#ifdef WEFT_TORCH_MIN
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#else
#include <ATen/core/Tensor.h>
#endif

#include <cstdint>

#include "../comm.h"

namespace weft::plugin {
inline namespace v0 {

#ifdef WEFT_TORCH_MIN

// A tensor of the plugin's.
using Tensor = torch::stable::Tensor;
// Returned for tensors that the host owns: another handle to the same tensor.
using TensorView = Tensor;

// Convert tensors to and from the ABI. The handle borrows.
inline const weft_at_tensor* handle(const Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(tensor.get());
}
inline weft_at_tensor* handle(Tensor& tensor) {
  return reinterpret_cast<weft_at_tensor*>(tensor.get());
}
inline TensorView tensor(const weft_at_tensor* handle) {
  AtenTensorHandle own = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(
      reinterpret_cast<AtenTensorHandle>(const_cast<weft_at_tensor*>(handle)), &own));
  return Tensor(own);
}

// Returns a view of a contiguous tensor with other sizes.
inline Tensor shaped(const Tensor& tensor, const int64_t* sizes, size_t num_dims) {
  return torch::stable::view(tensor, {sizes, num_dims});
}

#else

// A tensor of the plugin's.
using Tensor = at::Tensor;
// Returned for tensors that the host owns: a reference to the tensor.
using TensorView = const at::Tensor&;

// Convert tensors to and from the ABI. The handle borrows.
inline const weft_at_tensor* handle(const Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}
inline weft_at_tensor* handle(Tensor& tensor) {
  return reinterpret_cast<weft_at_tensor*>(&tensor);
}
inline TensorView tensor(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

// Returns a view of a contiguous tensor with other sizes.
inline Tensor shaped(const Tensor& tensor, const int64_t* sizes, size_t num_dims) {
  return tensor.view(at::IntArrayRef(sizes, num_dims));
}

#endif

}  // namespace v0
}  // namespace weft::plugin
