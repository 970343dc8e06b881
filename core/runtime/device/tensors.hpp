// Where the memory of tensors is: moving them between host and device, and reading them. Whoever reads the
// memory of a tensor on the host, by a pointer or item(), asks here first.
//
// Each function that reads a tensor of a device makes the host wait for it, once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/graph.hpp"
#include "weft/torch/values.hpp"

namespace weft::device {

// Returns whether the host can read and write the memory of `tensor`, as Weft's kernels for the CPU do. False
// for tensors of the meta device, which have none.
inline bool is_on_host(const at::Tensor& tensor) {
  return tensor.is_cpu();
}

// Returns a tensor of the same values in host memory: `tensor` itself if it is there.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (is_on_host(tensor)) return tensor;
  refuse_in_graph("the host reads values of the device while it runs");
  const at::Tensor values = tensor.to(kHost);
  check_work();
  return values;
}

// Copy a tensor to a device, or to the current one, through page-locked memory, so that the host goes on. A
// tensor in page-locked memory must stay as it is until the device has read it.
at::Tensor copy_to(const at::Tensor& tensor, c10::Device place);
at::Tensor copy_to_device(const at::Tensor& tensor);

// Returns a tensor of the same values on the current device: `tensor` itself if it is there.
inline at::Tensor on_device(const at::Tensor& tensor) {
  return current().holds(tensor) ? tensor : copy_to_device(tensor);
}

// Returns contiguous host memory of the shape and dtype of `tensor`, to be filled and then copied to it:
// `tensor` itself if it is that, otherwise uninitialised memory.
at::Tensor host_memory_for(const at::Tensor& tensor);

// Returns the value of a tensor with one element, converted to T.
template <class T>
T value_of(const at::Tensor& tensor) {
  return on_host(tensor).item<T>();
}

// Returns the elements of a tensor.
template <class T>
std::vector<T> values_of(const at::Tensor& tensor) {
  return weft::values_of<T>(on_host(tensor));
}

// Resizes the storage of `tensor` to `bytes` with its allocator; 0 frees the memory. Keeps the values that
// fit, and the sizes of the tensors on it.
void resize_storage(const at::Tensor& tensor, int64_t bytes);

// Returns a tensor with one dimension on the current device whose memory nothing fills, not even in
// libtorch's deterministic mode.
at::Tensor unfilled(int64_t elements, at::ScalarType dtype);

// Allocate memory that no tensor has yet. On the device it comes from libtorch's allocator for it; throws
// RESOURCE_EXHAUSTED if too little is left.
c10::DataPtr allocate(size_t bytes);
c10::DataPtr allocate_on_host(size_t bytes);
// Page-locked host memory, which the device copies while the host goes on. Not on the CPU. Throws
// RESOURCE_EXHAUSTED if the system locks no more.
c10::DataPtr allocate_pinned(size_t bytes);

// Returns whether batches can be page-locked, so that a device copies them while the host goes on.
inline bool pins_memory() {
  return !current().is_host();
}

}  // namespace weft::device
