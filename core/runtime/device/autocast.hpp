// Autocast on the device of this process: the operations that gain from it compute in half precision.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace weft::device {

// Returns the dtype in which autocast computes matrix products on this thread, or nothing while it is off.
std::optional<at::ScalarType> autocast_dtype();

// Returns `tensor` as autocast passes it to a matrix product; it may be undefined. Copies of parameters are
// kept until the outermost Autocast of the thread ends.
at::Tensor autocast(const at::Tensor& tensor);

// Enables autocast to `dtype` on this thread while it lives. Without a dtype it does nothing.
class Autocast {
 public:
  explicit Autocast(std::optional<at::ScalarType> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;

 private:
  bool active_, was_enabled_ = false;
  at::ScalarType before_ = at::kFloat;
};

// Disables autocast on this thread while it lives.
class NoAutocast {
 public:
  NoAutocast();
  NoAutocast(const NoAutocast&) = delete;

 private:
  const c10::impl::ExcludeDispatchKeyGuard excluded_;
};

}  // namespace weft::device
