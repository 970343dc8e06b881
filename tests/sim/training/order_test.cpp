// What the engine orders between the threads of autograd, and moves to the device.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "autograd/deferred_gradients.hpp"
#include "sim/training/sim_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

// Autograd accumulates gradients of a device in a thread of that device. A call that was deferred after them
// must not run before.
TEST(SimDeferredGradients, AreAccumulatedBeforeTheCallsThatFollowThem) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    for (int round = 0; round < 20; ++round) {
      DeferredGradients deferred;
      std::vector<at::Tensor> parameters;
      std::vector<bool> accumulated;
      for (int i = 0; i < 8; ++i) {
        const at::Tensor parameter = at::ones({4}, device::current().options(at::kFloat)).requires_grad_();
        parameters.push_back(parameter);
        deferred.defer(torch::autograd::collect_next_edges(parameter), [parameter] {
          return torch::autograd::variable_list{at::full_like(parameter.detach(), 2)};
        });
        deferred.defer([&, parameter] { accumulated.push_back(parameter.grad().defined()); });
      }
      deferred.run();
      EXPECT_EQ(accumulated, std::vector<bool>(8, true));
      for (const at::Tensor& parameter : parameters)
        EXPECT_TRUE(at::equal(parameter.grad().cpu(), at::full({4}, 2.0f)));
    }
  });
}

TEST(SimBuffers, AreOnTheDeviceAndStayTheModels) {
  on_sim_ranks(2, [](World& world) {
    const auto model = make_toy();
    const at::Tensor scale = model->scale();
    ASSERT_TRUE(scale.is_cpu());
    const OnSim sim(world);
    const JobOptions options = {.strategy = "torch_ddp"};
    Job job = boost(world, Model::adopt(model), options);
    EXPECT_EQ(scale.device(), device::current().place());
    EXPECT_TRUE(model->scale().is_same(scale));
    EXPECT_EQ(scale.item<float>(), 1);
  });
}

}  // namespace

}  // namespace weft::test
