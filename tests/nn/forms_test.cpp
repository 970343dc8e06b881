// The fused and the plain form of layers must have equal values and gradients up to rounding, and different
// graphs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"

namespace weft::test {

namespace {

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<at::Tensor(const Tensors&)>;

struct Outcome {
  Tensors values;  // the output, then the gradient of each input
  std::string function;
};

Outcome outcome(const Forward& forward, const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.clone().requires_grad_(true));
  at::manual_seed(7);
  const at::Tensor y = forward(leaves);
  (y * at::linspace(-1, 2, y.numel(), y.options()).view(y.sizes())).sum().backward();
  Outcome result{{y.detach()}, y.grad_fn()->name()};
  for (const at::Tensor& leaf : leaves) result.values.push_back(leaf.grad());
  return result;
}

// Compares the two forms of `layer`, which `forward` uses. Their graphs must differ, so that no form is
// compared with itself.
void expect_forms_agree(nn::Fusible& layer, const Forward& forward, const Tensors& inputs) {
  const double tolerance = inputs[0].scalar_type() == at::kFloat ? kKernelFp32 : kKernelFp64;
  layer.fused = true;
  const Outcome fused = outcome(forward, inputs), again = outcome(forward, inputs);
  layer.fused = false;
  const Outcome plain = outcome(forward, inputs);
  for (size_t i = 0; i < fused.values.size(); ++i) {
    EXPECT_TRUE(is_near(fused.values[i], plain.values[i], tolerance)) << layer.kind() << " " << i;
    EXPECT_TRUE(fused.values[i].equal(again.values[i])) << layer.kind() << " " << i;
  }
  EXPECT_NE(fused.function, plain.function) << layer.kind();
}

class Forms : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor random(at::IntArrayRef shape) const { return at::randn(shape, at::kDouble).to(GetParam()); }
};

TEST_P(Forms, AgreeForALayerNorm) {
  for (const int64_t channels : {5, 64, 150}) {
    nn::LayerNorm norm(channels, 1e-5, GetParam());
    const Forward forward = [&](const Tensors& in) {
      norm.weight = in[1];
      norm.bias = in[2];
      return norm(in[0]);
    };
    expect_forms_agree(norm, forward,
                       {random({3, 7, channels}) * 3 + 1, random({channels}), random({channels})});
  }
}

TEST_P(Forms, AgreeForAnRmsNorm) {
  for (const int64_t channels : {5, 64, 150}) {
    nn::RmsNorm norm(channels, 1e-5, GetParam());
    const Forward forward = [&](const Tensors& in) {
      norm.weight = in[1];
      return norm(in[0]);
    };
    expect_forms_agree(norm, forward, {random({3, 7, channels}) * 3, random({channels})});
  }
}

TEST_P(Forms, AgreeForGelu) {
  nn::Activation gelu("gelu_new");
  expect_forms_agree(gelu, [&](const Tensors& in) { return gelu(in[0]); }, {random({3, 7, 50}) * 3});
}

TEST_P(Forms, AgreeForAGatedMlp) {
  for (const char* name : {"silu", "gelu_new", "gelu_pytorch_tanh"}) {
    nn::Activation activation(name);
    const Tensors inputs = {random({3, 7, 50}) * 3, random({3, 7, 50})};
    const Forward forward = [&](const Tensors& in) { return activation(in[0], in[1]); };
    if (GetParam() == at::kFloat) expect_forms_agree(activation, forward, inputs);
    if (GetParam() == at::kDouble) {  // fp64 has one form only
      const at::Tensor plain =
          outcome([&](const Tensors& in) { return nn::activation(name)(in[0]) * in[1]; }, inputs).values[0];
      EXPECT_TRUE(is_near(forward(inputs), plain, 1e-13));
    }
  }
}

TEST_P(Forms, AgreeForADropoutOnEveryStream) {
  for (const uint64_t stream : {0, 2}) {
    nn::Dropout dropout(0.3);
    dropout.random_stream = stream;
    expect_forms_agree(dropout, [&](const Tensors& in) { return dropout(in[0]); }, {random({3, 7, 50})});
    expect_forms_agree(dropout, [&](const Tensors& in) { return dropout.added(in[1], in[0]); },
                       {random({3, 7, 50}), random({3, 7, 50})});
  }
}

INSTANTIATE_TEST_SUITE_P(All, Forms, testing::Values(at::kFloat, at::kDouble));

TEST(Dropout, AddsNothingButTheResidualInEvaluation) {
  nn::Dropout dropout(0.3);
  dropout.eval();
  EXPECT_TRUE(dropout.added(at::ones({4}), at::full({4}, 2)).equal(at::full({4}, 3)));
}

TEST(Dropout, KeepsItsExpectationAndZeros) {
  const nn::Dropout dropout(0.25);
  at::manual_seed(3);
  const at::Tensor y = dropout.added(at::zeros({100000}), at::ones({100000}));
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.25, 0.01);
  // Neighbours must be independent, also across the generator's lanes and blocks.
  for (const int64_t apart : {1, 16, 4096}) {
    const at::Tensor both = y.narrow(0, apart, 90000).eq(0).logical_and(y.narrow(0, 0, 90000).eq(0));
    EXPECT_NEAR(both.to(at::kDouble).mean().item<double>(), 0.0625, 0.005) << apart;
  }
  EXPECT_TRUE(nn::Dropout(1)(at::ones({9})).equal(at::zeros({9})));
}

}  // namespace

}  // namespace weft::test
