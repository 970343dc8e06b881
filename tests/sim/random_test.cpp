// Generators of the device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "sim/sim_test.hpp"

namespace weft::sim {
namespace {

class Generators : public SimTest {
 protected:
  static at::Generator of_device(c10::DeviceIndex index = 0) {
    return at::globalContext().defaultGenerator(device(index));
  }
};

TEST_F(Generators, AreRefusedOnAnotherDevice) {
  at::Tensor here = at::empty({4}, floats());
  at::Generator host = at::detail::createCPUGenerator(1);
  expect_throw("the generator is of cpu, must be of sim:0", [&] { here.uniform_(0, 1, host); });
  expect_throw("the generator is of sim:1, must be of sim:0", [&] { here.uniform_(0, 1, of_device(1)); });
  expect_throw("a tensor of shape [4] is on cpu, must be on a sim device",
               [&] { at::empty({4}).uniform_(0, 1, of_device()); });
  EXPECT_NO_THROW(here.uniform_(0, 1, of_device()));
}

TEST_F(Generators, DrawWhatTheHostsDrawAfterTheSameSeed) {
  at::manual_seed(5);
  const at::Tensor host = at::rand({8}), after = at::rand({8}), device = at::rand({8}, floats());
  EXPECT_TRUE(at::equal(host, device.cpu())) << "the device's numbers do not follow the host's";
  at::manual_seed(5);
  const at::Tensor again = at::rand({8}, floats());
  EXPECT_TRUE(at::equal(host, at::rand({8})) && at::equal(host, again.cpu()));
}

TEST_F(Generators, HaveAStateToSaveAndRestore) {
  at::manual_seed(9);
  at::Generator generator = of_device();
  at::rand({3}, floats());
  const at::Tensor state = generator.get_state();
  EXPECT_TRUE(state.is_cpu());
  const at::Tensor first = at::rand({4}, floats()), second = at::rand({4}, floats());
  EXPECT_FALSE(at::equal(first.cpu(), second.cpu()));
  generator.set_state(state);
  EXPECT_TRUE(at::equal(at::rand({4}, floats()).cpu(), first.cpu()));
}

TEST_F(Generators, AreTheDevicesForDropoutToo) {
  at::manual_seed(3);
  const at::Tensor expected = at::dropout(at::ones({64}), 0.5, true);
  at::manual_seed(3);
  const at::Tensor dropped = at::dropout(at::ones({64}, floats()), 0.5, true);
  const at::Tensor host = at::dropout(at::ones({64}), 0.5, true);
  EXPECT_TRUE(at::equal(dropped.cpu(), expected));
  EXPECT_TRUE(at::equal(host, expected)) << "the host's generator is where it was";
  EXPECT_FALSE(at::equal(at::dropout(at::ones({64}, floats()), 0.5, true).cpu(), expected));
}

}  // namespace
}  // namespace weft::sim
