// On the meta device layers have the results and the graphs that they have with memory, so that estimates
// count what training saves.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "weft/nn/layers.hpp"
#include "weft/nn/masks.hpp"

namespace weft::test {

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

Tensors leaves_on(at::Device device, const Tensors& values) {
  Tensors leaves;
  for (const Tensor& value : values)
    leaves.push_back(value.to(device).requires_grad_(value.is_floating_point()));
  return leaves;
}

void expect_alike(const std::string& what, const Tensors& inputs,
                  const std::function<Tensor(const Tensors&)>& function) {
  const Tensor real = function(leaves_on(at::kCPU, inputs)), shape = function(leaves_on(at::kMeta, inputs));
  ASSERT_TRUE(shape.is_meta()) << what;
  EXPECT_EQ(shape.sizes(), real.sizes()) << what;
  EXPECT_EQ(shape.scalar_type(), real.scalar_type()) << what;
  ASSERT_NE(shape.grad_fn(), nullptr) << what;
  EXPECT_EQ(shape.grad_fn()->name(), real.grad_fn()->name()) << what;
}

TEST(Meta, HasEveryActivation) {
  for (const char* name : {"gelu", "gelu_10", "gelu_python", "hardswish", "laplace", "leaky_relu", "mish",
                           "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "sqrtsoftplus", "tanh"})
    expect_alike(name, {at::randn({2, 5, 4}, at::kDouble)},
                 [&](const Tensors& in) { return nn::activation(name)(in[0]); });
}

TEST(Meta, HasEmbeddingsAndNorms) {
  const Tensor ids = at::tensor({1, 0, 2, 2, 1, 0}, at::kLong).view({2, 3}), table = at::randn({3, 4});
  expect_alike("embedding", {table, ids}, [](const Tensors& in) { return at::embedding(in[0], in[1], 0); });
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    expect_alike("layer_norm", {at::randn({2, 3, 4}, dtype), at::ones({4}, dtype), at::zeros({4}, dtype)},
                 [](const Tensors& in) { return at::layer_norm(in[0], {4}, in[1], in[2]); });
}

// T5 masks later positions, and adds a learned bias to the scores.
TEST(Meta, HasAttentionWithMasks) {
  const Tensor allowed = at::ones({4, 4}, at::kBool).tril(), queries = at::randn({2, 2, 4, 8}),
               bias = at::randn({1, 2, 4, 4});
  expect_alike("additive mask", {queries, bias, allowed}, [](const Tensors& in) {
    return nn::attention(in[0], in[0], in[0], in[1] + nn::additive_mask(in[2], at::kFloat), {.fused = false});
  });
  expect_alike("where", {allowed, queries.narrow(3, 0, 4), bias},
               [](const Tensors& in) { return at::where(in[0].logical_not(), in[1], in[2]); });
}

TEST(Meta, HasConvolutions) {
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t padding : {0, 1, 2})
      for (const int64_t dilation : {1, 2}) {
        const Tensors images = {at::randn({2, 4, 9, 11}), at::randn({6, 2, 3, 2}), at::randn({6})};
        expect_alike("conv2d", images, [&](const Tensors& in) {
          return at::conv2d(in[0], in[1], in[2], stride, padding, dilation, /*groups=*/2);
        });
        expect_alike("conv1d", {at::randn({2, 4, 11}), at::randn({6, 4, 3})}, [&](const Tensors& in) {
          return at::conv1d(in[0], in[1], {}, stride, padding, dilation);
        });
        expect_alike(
            "conv_transpose2d", {at::randn({2, 4, 9, 11}), at::randn({4, 3, 3, 2})}, [&](const Tensors& in) {
              return at::conv_transpose2d(in[0], in[1], {}, stride, padding, stride - 1, /*groups=*/2,
                                          /*dilation=*/stride);
            });
      }
}

}  // namespace

}  // namespace weft::test
