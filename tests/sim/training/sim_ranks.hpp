// Ranks that train on the simulated accelerator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "weft/world.hpp"

namespace weft::test {

// The device kind "sim". Its ranks communicate as those of "cuda" do (plugins/cuda/lanes.hpp): with one
// communicator for collectives, and one for the messages of each pair of ranks and direction.
extern const device::Kind kSim;

// Runs `body` on this number of ranks. The simulated devices exist there, but the device is the CPU until an
// OnSim lives. Backwards of a reference belong into `body`: the test's own process has no threads for the
// backward of a device, and its ranks would have none either.
void on_sim_ranks(int ranks, const std::function<void(World& world)>& body);

// Makes a simulated device that of this process while it lives. It is another one on each rank, and never the
// one that new threads have. Fails the test for each mistake that the device reports.
class OnSim {
 public:
  // `shared`: as if the ranks shared a device, so that they communicate through host memory.
  explicit OnSim(const World& world, const device::Kind& kind = kSim, bool shared = false);
  OnSim(const OnSim&) = delete;
  ~OnSim();

  c10::DeviceIndex index() const { return index_; }

 private:
  const device::Device before_;
  const c10::DeviceIndex index_;
};

}  // namespace weft::test
