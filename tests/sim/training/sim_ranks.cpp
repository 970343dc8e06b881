#include "sim/training/sim_ranks.hpp"

#include <gtest/gtest.h>

#include "sim/sim_device.hpp"
#include "sim/training/sim_kind.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {

namespace {

using std::chrono::milliseconds;

c10::intrusive_ptr<c10d::Backend> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                          milliseconds timeout, const c10::intrusive_ptr<c10d::Backend>&) {
  return connect_sim(store, rank, size, timeout);
}

c10::DeviceIndex index_of(const World& world) {
  return static_cast<c10::DeviceIndex>(1 + world.rank() % (sim::kDevices - 1));
}

}  // namespace

constinit const device::Kind kSim = sim_kind(&connect);

void on_sim_ranks(int ranks, const std::function<void(World& world)>& body) {
  on_ranks({ranks},
           [&](World& world) {
             sim::install();
             sim::fail_silently();
             body(world);
             world.communicator().barrier();  // a rank that ends takes its connections with it
           },
           {.timeout = milliseconds(180'000)});
}

OnSim::OnSim(const World& world, const device::Kind& kind, bool shared)
    : before_(device::current()), index_(index_of(world)) {
  device::use(device::Device(kind, index_, shared));
}

OnSim::~OnSim() {
  sim::synchronise(index_);
  for (const std::string& line : sim::take_reports()) ADD_FAILURE() << "reported: " << line;
  device::use(before_);
}

}  // namespace weft::test
