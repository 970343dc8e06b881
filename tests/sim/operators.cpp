// Operators of the simulated device: a few by hand, all others by the CPU's kernels (fallback.hpp).
#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "sim/fallback.hpp"
#include "sim/state.hpp"

namespace weft::sim {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// As on other devices, libtorch's deterministic mode fills new memory, which is work of the stream.
at::Tensor filled_if_asked(at::Tensor made) {
  const at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())
    at::native::fill_empty_deterministic_(made);
  return made;
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> on, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(on));
  return filled_if_asked(at::detail::empty_generic(sizes, c10::GetAllocator(c10::kPrivateUse1), kKeys,
                                                   c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> on, std::optional<bool>) {
  const c10::DeviceGuard guard(c10::device_or_default(on));
  return filled_if_asked(at::detail::empty_strided_generic(
      sizes, strides, c10::GetAllocator(c10::kPrivateUse1), kKeys, c10::dtype_or_default(dtype)));
}

bool is_block_of_pinned(const at::Tensor& tensor) {
  return tensor.is_contiguous() && is_pinned(tensor.const_data_ptr());
}

at::Tensor copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.device() == to.device(), "sim: copies between ", from.device(), " and ", to.device(),
              " are not simulated");
  const std::vector<Access> accesses{{from, false}, {to, true}};
  settle(accesses);
  HostView view("copy");
  const at::Tensor source = view.of(from), target = view.of(to);
  launch("copy", current_stream(to.device().index()), accesses);
  const at::AutoDispatchBelowADInplaceOrView below;
  target.copy_(source);
  if (is_capturing()) add_to_graph([from, to] { copy_on_device(from, to); });
  return to;
}

// The host goes on if it asked to and the memory is pinned. Otherwise it waits: a driver may stage memory
// that is not pinned, and waits for the stream first.
at::Tensor copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool pinned = is_block_of_pinned(from);
  std::vector<Access> accesses{{to, true}};
  if (pinned) accesses.push_back({from, false});
  settle(accesses);
  HostView view("copy to the device");
  const at::Tensor target = view.of(to);
  const c10::Stream stream = current_stream(to.device().index());
  launch("copy to the device", stream, accesses, Path::kBus);
  count_copy(stream, static_cast<int64_t>(from.nbytes()), 0);
  const at::AutoDispatchBelowADInplaceOrView below;
  target.copy_(from);
  if (non_blocking && pinned)
    begin_copy(from, from.clone(), stream, /*to_host=*/false);
  else
    count_host_wait(stream);
  return to;
}

at::Tensor copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool pinned = is_block_of_pinned(to);
  std::vector<Access> accesses{{from, false}};
  if (pinned) accesses.push_back({to, true});
  settle(accesses);
  HostView view("copy to the host");
  const at::Tensor source = view.of(from);
  const c10::Stream stream = current_stream(from.device().index());
  launch("copy to the host", stream, accesses, Path::kBus);
  count_copy(stream, 0, static_cast<int64_t>(to.nbytes()));
  const at::AutoDispatchBelowADInplaceOrView below;
  if (non_blocking && pinned) {
    begin_copy(to, source.to(to.scalar_type(), /*non_blocking=*/false, /*copy=*/true).contiguous(), stream,
               /*to_host=*/true);
  } else {
    to.copy_(source);
    count_host_wait(stream);
  }
  return to;
}

}  // namespace

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (is_on_device(from) && is_on_device(to)) return copy_on_device(from, to);
  return is_on_device(from) ? copy_to_host(from, to, non_blocking) : copy_to_device(from, to, non_blocking);
}

namespace {

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar item(const at::Tensor& self) {
  const at::Tensor host = at::empty(self.sizes(), self.options().device(at::kCPU));
  copy_to_host(self, host, false);
  return at::cpu::_local_scalar_dense(host);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!format || *format == at::MemoryFormat::Contiguous, "sim: resize_ to memory format ", *format,
              " is not simulated");
  const size_t bytes =
      at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), self.storage_offset());
  if (bytes > self.storage().nbytes()) resize_storage(self.storage(), bytes);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& set_part_of_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                                at::IntArrayRef strides) {
  TORCH_CHECK(source.device() == self.device(), "sim: set_: the storage is on ", source.device(),
              ", must be on ", self.device());
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, self.itemsize(), offset);
  if (bytes > source.nbytes()) resize_storage(source, bytes);
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(std::move(source));
  impl.set_storage_offset(offset);
  impl.set_sizes_and_strides(sizes, strides);
  return self;
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_part_of_storage(self, std::move(source), 0, {count}, {1});
}
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_part_of_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                             source.strides());
}
at::Tensor& set_empty(at::Tensor& self) {
  return set_tensor(self, at::empty({0}, self.options()));
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  c10::getDeviceAllocator(c10::kPrivateUse1)->recordStream(self.storage().data_ptr(), stream);
}

torch::CppFunction by_cpu() {
  return torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>();
}

// copy_ resolves conjugate and negative views itself, by _copy_from; otherwise that would call copy_ again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(by_cpu());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", item);
  m.impl("resize_", resize);
  m.impl("set_", set_empty);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_part_of_storage);
  m.impl("record_stream", record_stream);
  // Composites whose parts exist for the devices of libtorch alone, or would wait for the values of a mask
  // twice.
  m.impl("index.Tensor", by_cpu());
  m.impl("convolution", by_cpu());
  m.impl("convolution_backward", by_cpu());
}

}  // namespace

// Operators with a kernel for the CPU and a composite for all others. The composite would run in place of the
// fallback and compute something else than the CPU does.
void register_operators() {
  static auto& library = *new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1));
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() != "aten" || !op || !op->hasSchema()) continue;
    const auto has = [&](c10::DispatchKey key) { return op->hasKernelForDispatchKey(key); };
    if (has(c10::DispatchKey::CPU) && !has(c10::DispatchKey::PrivateUse1) &&
        (has(c10::DispatchKey::CompositeExplicitAutograd) ||
         has(c10::DispatchKey::CompositeImplicitAutograd)))
      library.impl(toString(name).c_str(), by_cpu());
  }
  // Otherwise attention would never be the fused one.
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&at::native::_fused_sdp_choice_cpp);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::register_privateuse1_backend("sim");
    register_memory();
    register_guard();
    register_hooks();
    register_operators();
    report_host_accesses();
    at::set_num_threads(1);
    // libtorch's flight recorder is one for the process, and adds a new group to its map without a lock. Here
    // ranks are threads. Only the environment switches it off.
    setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  });
}

}  // namespace weft::sim
