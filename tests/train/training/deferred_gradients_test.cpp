// Split backwards: what linear layers leave to the second half, and that the two halves are one backward, bit
// for bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <weft/nn/forward_context.hpp>
#include <weft/nn/layers.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/deferred_gradients.hpp"
#include "autograd/recompute.hpp"
#include "autograd/saved_tensor_hooks.hpp"
#include "device/autocast.hpp"

namespace weft::test {

namespace {

using Layout = nn::Linear::Layout;

// The parameters of two linear layers: 6 features to 8 to 6.
struct Parameters {
  at::Tensor up, bias, down;
  std::vector<at::Tensor> all() const { return {up, bias, down}; }
};

Parameters make_parameters(at::ScalarType dtype) {
  at::manual_seed(3);
  const auto make = [&](at::IntArrayRef shape) { return at::randn(shape).to(dtype).set_requires_grad(true); };
  return {make({8, 6}), make({8}), make({6, 8})};
}

at::Tensor make_input(at::ScalarType dtype) {
  at::manual_seed(4);
  return at::randn({3, 5, 6}).to(dtype).set_requires_grad(true);
}

// Computes with the parameters.
using Forward = std::function<at::Tensor(const at::Tensor& x, const Parameters& parameters)>;

at::Tensor two_layers(const at::Tensor& x, const Parameters& p) {
  return nn::linear(nn::linear(x, p.up, p.bias, Layout::kOutIn).tanh(), p.down, {}, Layout::kOutIn);
}

// Runs forward, and backward from a sum of squares. With `deferred`, backward runs its first half.
void run(const Forward& forward, const at::Tensor& x, const Parameters& parameters,
         const std::shared_ptr<DeferredGradients>& deferred, std::optional<at::ScalarType> autocast = {}) {
  nn::ForwardContext context;
  at::Tensor y;
  {
    const nn::RunningUnit unit(context, 0, nn::RunningUnit::Run::kFirst, deferred);
    const device::Autocast cast(autocast);
    y = forward(x, parameters);
  }
  y.to(at::kFloat).square().sum().backward();
}

std::vector<at::Tensor> gradients_of(const at::Tensor& x, const Parameters& parameters) {
  std::vector<at::Tensor> gradients = {x.grad()};
  for (const at::Tensor& parameter : parameters.all()) gradients.push_back(parameter.grad());
  return gradients;
}

// Runs two micro-batches in both ways, and compares all bits.
void expect_same_bits(const Forward& forward, at::ScalarType dtype,
                      std::optional<at::ScalarType> autocast = {}) {
  const at::Tensor x = make_input(dtype), split_x = make_input(dtype);
  const Parameters whole = make_parameters(dtype), split = make_parameters(dtype);
  for (int micro = 0; micro < 2; ++micro) {
    run(forward, x, whole, nullptr, autocast);
    const auto deferred = std::make_shared<DeferredGradients>();
    run(forward, split_x, split, deferred, autocast);
    EXPECT_TRUE(split_x.grad().equal(x.grad()));
    deferred->run();
  }
  const std::vector<at::Tensor> expected = gradients_of(x, whole), actual = gradients_of(split_x, split);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << i;
    if (!expected[i].defined()) continue;
    EXPECT_TRUE(actual[i].equal(expected[i])) << i;
    EXPECT_EQ(actual[i].scalar_type(), expected[i].scalar_type()) << i;
  }
}

TEST(DeferredGradients, HaveTheBitsOfOneBackward) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    expect_same_bits(two_layers, dtype);
  expect_same_bits(two_layers, at::kFloat, at::kBFloat16);
}

TEST(DeferredGradients, HaveThoseOfTheOtherLayout) {
  const Forward forward = [](const at::Tensor& x, const Parameters& p) {
    return nn::linear(nn::linear(x, p.down, {}, Layout::kInOut), p.up, p.bias.narrow(0, 0, 6),
                      Layout::kInOut);
  };
  // A narrowed bias is no parameter, so this layer computes all in the first half.
  expect_same_bits(forward, at::kDouble);
  const Forward unbiased = [](const at::Tensor& x, const Parameters& p) {
    return nn::linear(nn::linear(x, p.down, p.bias, Layout::kInOut), p.up, {}, Layout::kInOut);
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) expect_same_bits(unbiased, dtype);
}

TEST(DeferredGradients, AreThoseOfLinearLayersAlone) {
  const at::Tensor x = make_input(at::kDouble);
  const Parameters parameters = make_parameters(at::kDouble);
  const auto deferred = std::make_shared<DeferredGradients>();
  const Forward forward = [](const at::Tensor& in, const Parameters& p) {
    return nn::linear(in, p.up, {}, Layout::kOutIn) * p.bias + at::linear(in, p.down.t());
  };
  run(forward, x, parameters, deferred);
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(parameters.bias.grad().defined());
  EXPECT_TRUE(parameters.down.grad().defined());
  EXPECT_FALSE(parameters.up.grad().defined());
  deferred->run();
  EXPECT_TRUE(parameters.up.grad().defined());
}

// Functions of parameters that keep tensors for backward cannot run again in the second half.
TEST(DeferredGradients, AreNotThoseOfComputedWeights) {
  const Forward masked = [](const at::Tensor& x, const Parameters& p) {
    return nn::linear(x, p.up * p.up, p.bias, Layout::kOutIn);
  };
  expect_same_bits(masked, at::kFloat);
  expect_same_bits(masked, at::kFloat, at::kBFloat16);
  const Parameters parameters = make_parameters(at::kFloat);
  const auto deferred = std::make_shared<DeferredGradients>();
  run(masked, make_input(at::kFloat), parameters, deferred);
  EXPECT_TRUE(parameters.up.grad().defined());
  EXPECT_TRUE(parameters.bias.grad().defined());
}

// Counts how often a gradient is accumulated.
class CountHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit CountHook(int* count) : count_(count) {}
  void operator()(const torch::autograd::Variable&) override { ++*count_; }

 private:
  int* count_;
};

TEST(DeferredGradients, AreAccumulatedOnceForAWeightThatIsUsedOften) {
  const Forward forward = [](const at::Tensor& x, const Parameters& p) {
    at::Tensor y = x;
    for (int i = 0; i < 4; ++i)
      y = nn::linear(nn::linear(y, p.up, p.bias, Layout::kOutIn).tanh(), p.down, {}, Layout::kOutIn).sin();
    return y;
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) expect_same_bits(forward, dtype);
  expect_same_bits(forward, at::kFloat, at::kBFloat16);
  const Parameters parameters = make_parameters(at::kFloat);
  int count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(parameters.up, std::make_unique<CountHook>(&count));
  const auto deferred = std::make_shared<DeferredGradients>();
  run(forward, make_input(at::kFloat), parameters, deferred);
  EXPECT_EQ(count, 0);
  deferred->run();
  EXPECT_EQ(count, 1);
  deferred->run();  // nothing is left
  EXPECT_EQ(count, 1);
}

// Returns how many tensors share the memory of `tensor`.
size_t sharers(const at::Tensor& tensor) {
  return tensor.storage().use_count();
}

TEST(DeferredGradients, KeepInputsUntilTheyAreComputed) {
  const Parameters parameters = make_parameters(at::kFloat);
  const at::Tensor x = make_input(at::kFloat);
  const auto deferred = std::make_shared<DeferredGradients>();
  run(two_layers, x, parameters, deferred);
  EXPECT_GT(sharers(x), 1u);
  deferred->run();
  EXPECT_EQ(sharers(x), 1u);
}

TEST(DeferredGradients, KeepNothingOfFrozenWeights) {
  const Parameters parameters = make_parameters(at::kFloat);
  parameters.up.set_requires_grad(false);
  const at::Tensor x = make_input(at::kFloat);
  const auto deferred = std::make_shared<DeferredGradients>();
  run(two_layers, x, parameters, deferred);
  EXPECT_EQ(sharers(x), 1u);
  EXPECT_TRUE(parameters.bias.grad().defined());  // with its layer's input gradient
  EXPECT_FALSE(parameters.down.grad().defined());
  deferred->run();
  EXPECT_FALSE(parameters.up.grad().defined());
  EXPECT_TRUE(parameters.down.grad().defined());
}

TEST(DeferredGradients, ComeInTheOrderInWhichTheyWereDeferred) {
  const Parameters parameters = make_parameters(at::kFloat);
  std::vector<std::string> order;
  const auto note = [&](const char* what) { return [&order, what] { order.emplace_back(what); }; };
  DeferredGradients deferred;
  const auto defer = [&](const at::Tensor& parameter, const char* name) {
    deferred.defer({torch::autograd::impl::gradient_edge(parameter)},
                   [parameter, noted = note(name)]() -> torch::autograd::variable_list {
                     noted();
                     return {at::ones_like(parameter)};
                   });
  };
  int down_count = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(parameters.down, std::make_unique<CountHook>(&down_count));
  deferred.defer(note("begin"));
  defer(parameters.down, "down");
  deferred.defer([&] { EXPECT_EQ(down_count, 1); });
  defer(parameters.up, "up");
  deferred.defer(note("end"));
  EXPECT_TRUE(order.empty());
  deferred.run();
  EXPECT_EQ(order, (std::vector<std::string>{"begin", "down", "up", "end"}));
}

// The function runs again in the first half, and only what the second half needs is kept.
TEST(DeferredGradients, GoWithRecomputation) {
  SavedTensorHooks::install();
  const at::Tensor x = make_input(at::kFloat), again_x = make_input(at::kFloat);
  const Parameters whole = make_parameters(at::kFloat), split = make_parameters(at::kFloat);
  run(two_layers, x, whole, nullptr);
  nn::ForwardContext context;
  const auto deferred = std::make_shared<DeferredGradients>();
  int runs = 0;
  State state = {{"x", again_x}};
  run_recomputed(
      "layers",
      [&](State& in, bool again) {
        using Run = nn::RunningUnit::Run;
        const nn::RunningUnit unit(context, 0, again ? Run::kAgain : Run::kFirst, deferred);
        ++runs;
        in.set("x", two_layers(in.at("x"), split));
      },
      state);
  state.at("x").square().sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(split.up.grad().defined());
  deferred->run();
  EXPECT_EQ(runs, 2);
  const std::vector<at::Tensor> expected = gradients_of(x, whole), actual = gradients_of(again_x, split);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].equal(expected[i])) << i;
}

}  // namespace

}  // namespace weft::test
