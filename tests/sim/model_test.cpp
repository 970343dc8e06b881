// A small model on the device: the bits of the CPU, and what a step costs.
#include <ATen/autocast_mode.h>

#include "sim/sim_test.hpp"
#include "sim/small_model.hpp"

namespace weft::sim {
namespace {

class Model : public SimTest {
 protected:
  void TearDown() override {
    at::globalContext().setSDPUseFlash(true);
    SimTest::TearDown();
  }
};

void expect_equal_training(bool fused_attention, double dropout) {
  at::globalContext().setSDPUseFlash(fused_attention);
  SmallModel cpu(at::kCPU), sim(device());
  cpu.dropout = sim.dropout = dropout;
  const auto [cpu_ids, cpu_labels] = SmallModel::batch(at::kCPU);
  const auto [sim_ids, sim_labels] = SmallModel::batch(device());
  at::manual_seed(1);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor expected = cpu.loss(cpu_ids, cpu_labels), loss = sim.loss(sim_ids, sim_labels);
    expected.backward();
    loss.backward();
    EXPECT_TRUE(at::equal(expected.detach(), loss.detach().cpu())) << step;
    EXPECT_TRUE(same_values(cpu.gradients(), sim.gradients())) << step;
    cpu.step(0.1);
    sim.step(0.1);
  }
  EXPECT_TRUE(same_values(cpu.parameters, sim.parameters));
}

TEST_F(Model, TrainsToTheBitsOfTheCpu) {
  expect_equal_training(/*fused_attention=*/false, /*dropout=*/0);
  expect_equal_training(/*fused_attention=*/true, /*dropout=*/0);
  expect_equal_training(/*fused_attention=*/true, /*dropout=*/0.5);
}

TEST_F(Model, MakesTheHostWaitOnceForTheBatchAndOnceForTheLoss) {
  SmallModel model(device());
  reset_counters();
  const auto [ids, labels] = SmallModel::batch(device());
  EXPECT_EQ(counters().host_waits, 2) << "the ids and the labels, from memory that is not pinned";
  EXPECT_EQ(counters().bytes_to_device, 2 * 3 * 16 * 8);
  const at::Tensor loss = model.loss(ids, labels);
  loss.backward();
  model.step(0.1);
  EXPECT_EQ(counters().host_waits, 2);
  EXPECT_EQ(counters().bytes_to_host, 0);
  loss.item<float>();
  EXPECT_EQ(counters().host_waits, 3);
  EXPECT_EQ(counters().bytes_to_host, 4);
}

TEST_F(Model, CostsTheSameInEveryStep) {
  SmallModel model(device());
  const auto [ids, labels] = SmallModel::batch(device());
  const auto step = [&, ids = ids, labels = labels] {
    model.loss(ids, labels).backward();
    model.step(0.1);
  };
  step();
  synchronise();
  Counters first;
  for (int i = 0; i < 3; ++i) {
    reset_counters();
    const int64_t before = counters().bytes_in_use;
    step();
    const Counters now = counters();
    EXPECT_EQ(now.bytes_in_use, before);
    EXPECT_GT(now.peak_bytes, before);
    if (i == 0) first = now;
    EXPECT_EQ(now.launches, first.launches);
    EXPECT_EQ(now.peak_bytes, first.peak_bytes);
    EXPECT_EQ(now.host_waits, 0);
  }
}

TEST_F(Model, RunsItsHooksAsTheGradientsAreReady) {
  SmallModel model(device());
  const auto [ids, labels] = SmallModel::batch(device());
  std::vector<at::Tensor> seen;
  model.on_gradient([&](const at::Tensor& gradient) { seen.push_back(gradient); });
  model.loss(ids, labels).backward();
  EXPECT_EQ(seen.size(), model.parameters.size());
  for (const at::Tensor& gradient : seen) EXPECT_EQ(gradient.device(), device());
}

TEST_F(Model, ComputesInHalfPrecisionUnderAutocast) {
  SmallModel model(device());
  const auto [ids, labels] = SmallModel::batch(device());
  const float full = model.loss(ids, labels).item<float>();
  at::autocast::set_autocast_enabled(c10::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(c10::kPrivateUse1, at::kBFloat16);
  at::autocast::increment_nesting();
  const at::Tensor product = at::linear(at::ones({2, 4}, floats()), at::ones({3, 4}, floats()));
  const at::Tensor probabilities = at::softmax(product, -1);
  const at::Tensor loss = model.loss(ids, labels);
  at::autocast::decrement_nesting();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(c10::kPrivateUse1, false);
  EXPECT_EQ(product.scalar_type(), at::kBFloat16);
  EXPECT_EQ(probabilities.scalar_type(), at::kFloat);
  loss.backward();
  EXPECT_EQ(model.parameters[2].grad().scalar_type(), at::kFloat);
  const float difference = std::abs(loss.item<float>() - full);
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.05);
}

}  // namespace
}  // namespace weft::sim
