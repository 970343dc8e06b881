#include "device/random.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

TEST(DeviceRandom, SeedsTheGeneratorFromWhichTheCpuDraws) {
  device::seed_random(5);
  const at::Tensor first = at::rand({4});
  at::manual_seed(5);
  EXPECT_TRUE(at::rand({4}).equal(first));
}

TEST(DeviceRandom, DrawsTheBitsOfTheHostsGenerator) {
  device::seed_random(5);
  at::Generator same = device::host_generator(5);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(device::draw_random(), at::check_generator<at::CPUGeneratorImpl>(same)->random64());
}

TEST(DeviceRandom, GoesOnFromAStateThatWasKept) {
  device::seed_random(7);
  const at::Tensor state = device::random_state();
  const at::Tensor first = at::rand({4});
  {
    const device::KeepRandomState kept;
    device::set_random_state(state);
    EXPECT_TRUE(at::rand({4}).equal(first));
  }
  const at::Tensor second = at::rand({4});
  EXPECT_FALSE(second.equal(first));
  device::set_random_state(state);
  at::rand({4});
  EXPECT_TRUE(at::rand({4}).equal(second));
}

TEST(DeviceRandom, TakesTheHostsPartOfAStateOfAnotherDevice) {
  device::seed_random(9);
  const at::Tensor state = device::random_state();
  const at::Tensor first = at::rand({4});
  device::set_random_state(at::cat({state, at::ones({16}, at::kByte)}));
  EXPECT_TRUE(at::rand({4}).equal(first));
  EXPECT_ANY_THROW(device::set_random_state(state.narrow(0, 0, 16)));
}

}  // namespace
}  // namespace weft::test
