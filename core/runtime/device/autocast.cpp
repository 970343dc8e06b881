#include "device/autocast.hpp"

#include <ATen/autocast_mode.h>

#include "device/device.hpp"

namespace weft::device {

namespace {

c10::DeviceType type() {
  return current().place().type();
}

}  // namespace

std::optional<at::ScalarType> autocast_dtype() {
  if (!at::autocast::is_autocast_enabled(type())) return std::nullopt;
  return at::autocast::get_autocast_dtype(type());
}

at::Tensor autocast(const at::Tensor& tensor) {
  if (!tensor.defined() || !at::autocast::is_autocast_enabled(type())) return tensor;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(type()), tensor, type());
}

Autocast::Autocast(std::optional<at::ScalarType> dtype) : active_(dtype) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(type());
  before_ = at::autocast::get_autocast_dtype(type());
  at::autocast::set_autocast_enabled(type(), true);
  at::autocast::set_autocast_dtype(type(), *dtype);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type(), was_enabled_);
  at::autocast::set_autocast_dtype(type(), before_);
}

NoAutocast::NoAutocast() : excluded_(at::autocast::get_autocast_dispatch_key_from_device_type(type())) {}

}  // namespace weft::device
