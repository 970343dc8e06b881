// Tests of operators in host memory and on the simulated accelerator.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "device/device.hpp"
#include "sim/sim_test.hpp"

namespace weft::test {

constinit inline const device::Kind kSim = {sizeof(device::Kind), "sim", c10::DeviceType::PrivateUse1};

inline constexpr std::array<bool, 2> kBoth = {true, true};

class Operators : public sim::SimTest {
 protected:
  void SetUp() override {
    sim::SimTest::SetUp();
    device::use(device::Device(kSim, 0));
    at::manual_seed(3);
  }
  void TearDown() override {
    sim::synchronise();
    device::use(before_);
    sim::SimTest::TearDown();
  }
  static at::Tensor there(const at::Tensor& tensor) { return tensor.detach().to(sim::device()); }
  static std::vector<at::Tensor> there(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> moved;
    for (const at::Tensor& tensor : tensors) moved.push_back(there(tensor));
    return moved;
  }

 private:
  const device::Device before_ = device::current();
};

inline void expect_equal(const at::Tensor& there, const at::Tensor& here) {
  ASSERT_EQ(there.device(), sim::device());
  EXPECT_TRUE(at::equal(there.cpu(), here));
}
inline void expect_equal(const std::vector<at::Tensor>& there, const std::vector<at::Tensor>& here) {
  ASSERT_EQ(there.size(), here.size());
  for (size_t i = 0; i < here.size(); ++i) expect_equal(there[i], here[i]);
}

}  // namespace weft::test
