#include "device/tensors.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft::device {

at::Tensor copy_to(const at::Tensor& tensor, c10::Device place) {
  refuse_in_graph("the host copies values to the device while it runs");
  // Page-locking has no derivative, and only accelerators have it.
  if (!at::accelerator::isAccelerator(place.type()) || !is_on_host(tensor) || tensor.requires_grad())
    return tensor.to(place);
  // libtorch waits for a copy whose memory has gaps.
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  const at::Tensor locked = dense.is_pinned() ? dense : dense.pin_memory();
  return locked.to(place, /*non_blocking=*/true);
}

at::Tensor copy_to_device(const at::Tensor& tensor) {
  return copy_to(tensor, current().place());
}

at::Tensor host_memory_for(const at::Tensor& tensor) {
  if (is_on_host(tensor) && tensor.is_contiguous()) return tensor;
  return at::empty(tensor.sizes(), tensor.options().device(kHost));
}

void resize_storage(const at::Tensor& tensor, int64_t bytes) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto size = static_cast<size_t>(bytes);
  if (is_on_host(tensor)) return at::native::resize_bytes_cpu(storage, size);
  const c10::DeviceGuard guard(tensor.device());
  c10::DataPtr made = storage->allocator()->allocate(size);
  if (const size_t kept = std::min(size, storage->nbytes()); kept > 0)
    storage->allocator()->copy_data(made.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(made));
  storage->set_nbytes(size);
}

at::Tensor unfilled(int64_t elements, at::ScalarType dtype) {
  const c10::Device place = current().place();
  const c10::DeviceGuard guard(place);
  const c10::DispatchKeySet keys(c10::computeDispatchKey(dtype, c10::Layout::Strided, place));
  return at::Tensor(at::detail::empty_generic({elements}, c10::GetAllocator(place.type()), keys, dtype, {}));
}

c10::DataPtr allocate(size_t bytes) {
  if (current().is_host()) return allocate_on_host(bytes);
  const c10::Device place = current().place();
  const c10::DeviceGuard guard(place);
  try {
    return c10::GetAllocator(place.type())->allocate(bytes);
  } catch (const c10::OutOfMemoryError& error) {
    fail(WEFT_RESOURCE_EXHAUSTED, "out of memory of {}: {} wanted: {}", place.str(),
         format_bytes(static_cast<int64_t>(bytes)), error.what_without_backtrace());
  }
}

c10::DataPtr allocate_on_host(size_t bytes) {
  void* const data = c10::alloc_cpu(bytes);
  return {data, data, &c10::free_cpu, c10::Device(kHost)};
}

c10::DataPtr allocate_pinned(size_t bytes) {
  const Device& device = current();
  if (device.kind().allocate_pinned == nullptr)
    return at::globalContext().getPinnedMemoryAllocator(device.place().type())->allocate(bytes);
  c10::DataPtr pages = device.kind().allocate_pinned(bytes);
  if (!pages)
    fail(WEFT_RESOURCE_EXHAUSTED,
         "the system does not lock {} of memory for {}; offload less, or use a machine with more memory",
         format_bytes(static_cast<int64_t>(bytes)), device.name());
  return pages;
}

}  // namespace weft::device
