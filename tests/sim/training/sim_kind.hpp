// What the engine is told of the simulated device.
#pragma once

#include "sim/sim_device.hpp"
#include "weft/device_kind.hpp"

namespace weft::test {

// The functions of device::Kind. The environment variable WEFT_SIM_DEVICES says how many devices a process
// has, all of them by default.
int sim_devices();
std::string missing_sim();
std::string allow_sim_tf32(c10::DeviceIndex index);
std::unique_ptr<device::GraphCapturer> make_sim_capturer();

constexpr device::Kind sim_kind(device::MakeBackend make_backend) {
  return {sizeof(device::Kind),
          "sim",
          c10::DeviceType::PrivateUse1,
          "sim",
          make_backend,
          &sim_devices,
          &missing_sim,
          &sim::set_capacity,
          &sim::failure,
          nullptr,
          "WEFT_SIM_WORKSPACE",
          ":4096:8 :16:8",
          &allow_sim_tf32,
          &make_sim_capturer,
          nullptr};
}

// Returns the backend of one group with the lanes of the device cuda (plugins/cuda/lanes.hpp), on the current
// device of whoever communicates first.
c10::intrusive_ptr<c10d::Backend> connect_sim(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                              int size, std::chrono::milliseconds timeout);

}  // namespace weft::test
