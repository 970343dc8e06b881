// A device that is not the host: libtorch's meta device, whose tensors have no memory.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "device/device.hpp"

namespace weft::test {

inline c10::intrusive_ptr<c10d::Backend> no_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                    std::chrono::milliseconds,
                                                    const c10::intrusive_ptr<c10d::Backend>& host) {
  return host;
}

inline constexpr device::Kind kStandIn = {sizeof(device::Kind),
                                          "stand_in",
                                          c10::DeviceType::Meta,
                                          "pretended",
                                          &no_backend,
                                          nullptr,
                                          nullptr,
                                          nullptr};

// Makes the stand-in the device of this process while it lives.
class OnStandIn {
 public:
  OnStandIn() : before_(device::current()) { device::use(device::Device(kStandIn)); }
  ~OnStandIn() { device::use(before_); }
  OnStandIn(const OnStandIn&) = delete;

 private:
  const device::Device before_;
};

}  // namespace weft::test
