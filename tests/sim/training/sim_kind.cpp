#include "sim/training/sim_kind.hpp"

#include <ATen/Context.h>

#include <cstdlib>

#include "lanes.hpp"

namespace weft::test {

namespace {

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

}  // namespace

int sim_devices() {
  const char* const number = std::getenv("WEFT_SIM_DEVICES");
  return number != nullptr ? std::atoi(number) : sim::kDevices;
}

std::string missing_sim() {
  return sim_devices() > 0 ? "" : "this process may use none of the simulated devices (WEFT_SIM_DEVICES)";
}

std::string allow_sim_tf32(c10::DeviceIndex) {
  at::globalContext().setAllowTF32CuBLAS(true);
  return "";
}

std::unique_ptr<device::GraphCapturer> make_sim_capturer() {
  return std::make_unique<Capturer>();
}

c10::intrusive_ptr<c10d::Backend> connect_sim(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                              int size, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<cuda::Lanes>(
      store, rank, size, timeout, "sim",
      [timeout](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name) {
        const auto backend = sim::make_backend(store, rank, size, timeout);
        backend->setGroupDesc(name);
        return backend;
      });
}

}  // namespace weft::test
