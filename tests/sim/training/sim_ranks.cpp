#include "sim/training/sim_ranks.hpp"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include "lanes.hpp"
#include "sim/sim_device.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {

namespace {

using std::chrono::milliseconds;

c10::intrusive_ptr<c10d::Backend> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                          milliseconds timeout, const c10::intrusive_ptr<c10d::Backend>&) {
  return c10::make_intrusive<cuda::Lanes>(
      store, rank, size, timeout, "sim",
      [timeout](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name) {
        const c10::DeviceGuard here(device::current().place());
        const auto backend = sim::make_backend(store, rank, size, timeout);
        backend->setGroupDesc(name);
        return backend;
      });
}

class Replay final : public device::Graph {
 public:
  explicit Replay(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  const std::function<void()> work_;
};

class Capturer final : public device::GraphCapturer {
 public:
  std::unique_ptr<device::Graph> capture(const std::function<void()>& give) override {
    return std::make_unique<Replay>(sim::capture(give));
  }
};

c10::DeviceIndex index_of(const World& world) {
  return static_cast<c10::DeviceIndex>(1 + world.rank() % (sim::kDevices - 1));
}

}  // namespace

constinit const device::Kind kSim = {
    sizeof(device::Kind),
    "sim",
    c10::DeviceType::PrivateUse1,
    "sim",
    &connect,
    [] { return sim::kDevices; },
    nullptr,
    &sim::set_capacity,
    &sim::failure,
    nullptr,
    "WEFT_SIM_WORKSPACE",
    ":4096:8 :16:8",
    [](c10::DeviceIndex) -> std::string {
      at::globalContext().setAllowTF32CuBLAS(true);
      return "";
    },
    []() -> std::unique_ptr<device::GraphCapturer> { return std::make_unique<Capturer>(); },
    nullptr};

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
