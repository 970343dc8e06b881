// Calls Weft's torch operators (weft/device_operators.hpp) by the device of their tensors.
//
// Thread-safe. A call costs what a call of libtorch's dispatcher costs, about a tenth of a microsecond: the
// operator is looked up by its name once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

#include "device/tensors.hpp"
#include "weft/device_operators.hpp"

namespace weft {

// Returns the operator with its signature.
template <class Operator>
const c10::TypedOperatorHandle<typename Operator::Signature>& handle_of() {
  static const c10::TypedOperatorHandle<typename Operator::Signature> handle =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(Operator::kName, "")
          .template typed<typename Operator::Signature>();
  return handle;
}

// Returns whether the device of `tensor` has an implementation, which host memory always has. Of the meta
// device libtorch has a fallback that only throws.
template <class Operator>
bool has_kernel(const at::Tensor& tensor) {
  if (tensor.is_meta()) return handle_of<Operator>().hasKernelForDispatchKey(c10::DispatchKey::Meta);
  return device::is_on_host(tensor) || handle_of<Operator>().hasComputedKernelForDispatchKey(
                                           c10::highestPriorityBackendTypeId(tensor.key_set()));
}

// The same for operators whose fp64 devices need not know.
template <class Operator>
bool has_layer_kernel(const at::Tensor& tensor) {
  return device::is_on_host(tensor) ||
         ((tensor.scalar_type() != at::kDouble || tensor.is_meta()) && has_kernel<Operator>(tensor));
}

template <class Operator, class... Arguments>
decltype(auto) call(Arguments&&... arguments) {
  return handle_of<Operator>().call(std::forward<Arguments>(arguments)...);
}

}  // namespace weft
