#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include "sim/state.hpp"

namespace weft::sim {

at::Tensor HostView::of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  TORCH_CHECK(tensor.numel() == 0 || extent(tensor).second <= storage.nbytes(), who_, ": a tensor of shape ",
              tensor.sizes(), " needs ", extent(tensor).second, " bytes of memory, but its storage has ",
              storage.nbytes(), ": it was freed or never allocated");
  auto found = cpu_of_.find(storage.unsafeGetStorageImpl());
  if (found == cpu_of_.end()) {
    void* const address = storage.data_ptr().get();
    c10::Storage cpu(c10::Storage::use_byte_size_t(), storage.nbytes(),
                     c10::DataPtr(address != nullptr ? backing_of(address) : nullptr, c10::Device(c10::kCPU)),
                     c10::GetCPUAllocator(), /*resizable=*/true);
    device_of_.emplace(cpu.unsafeGetStorageImpl(), storage);
    found = cpu_of_.emplace(storage.unsafeGetStorageImpl(), std::move(cpu)).first;
  }
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(found->second), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_storage_offset(tensor.storage_offset());
  impl.set_sizes_and_strides(tensor.sizes(), tensor.strides());
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl.set_wrapped_number(true);
  return view;
}

const c10::Storage* HostView::device_storage(const at::Tensor& cpu_tensor) const {
  const auto found = device_of_.find(cpu_tensor.storage().unsafeGetStorageImpl());
  if (found == device_of_.end()) return nullptr;
  // A kernel that resized it has left the memory of the device.
  const void* const address = found->second.data_ptr().get();
  const void* const expected = address != nullptr ? backing_of(address) : nullptr;
  return cpu_tensor.storage().data() == expected ? &found->second : nullptr;
}

}  // namespace weft::sim
