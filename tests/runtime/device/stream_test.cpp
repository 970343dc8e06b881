#include "device/stream.hpp"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "device/tensors.hpp"

namespace weft::test {
namespace {

// What orders work on a device leaves the CPU's order, which is that of the program.
TEST(DeviceStream, DoesNothingOnTheCpu) {
  const device::Stream side = device::Stream::make();
  device::Event done;
  EXPECT_TRUE(done.is_done()) << "nothing was marked";
  at::Tensor x = at::ones({8});
  {
    const device::OnStream on(side);
    x.add_(1);
    done.record();
  }
  done.wait();
  EXPECT_TRUE(done.is_done());
  done.synchronise();
  side.synchronise();
  x.mul_(2);
  EXPECT_EQ(device::values_of<float>(x), std::vector<float>(8, 4.0f));
}

}  // namespace
}  // namespace weft::test
