#include "weft/nn/layers.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

using Tensors = std::vector<at::Tensor>;

void bind(at::Tensor& parameter, const at::Tensor& value) {
  parameter.unsafeGetTensorImpl()->shallow_copy_from(value.variable_data().getIntrusivePtr());
  parameter.set_requires_grad(true);
}

TEST(Layers, AreMadeWithoutMemory) {
  const nn::Linear linear(3, 5, true, at::kBFloat16, nn::Linear::Layout::kInOut);
  EXPECT_TRUE(linear.weight.is_meta());
  EXPECT_TRUE(linear.weight.requires_grad());
  EXPECT_EQ(linear.weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(linear.weight.sizes(), (at::IntArrayRef{3, 5}));
  EXPECT_EQ(linear.kind(), "Conv1D");
  const nn::Linear usual(3, 5, false, at::kFloat);
  EXPECT_EQ(usual.weight.sizes(), (at::IntArrayRef{5, 3}));
  EXPECT_FALSE(usual.bias.defined());
  EXPECT_EQ(usual.kind(), "Linear");
}

TEST(Linear, LayoutsAgree) {
  at::manual_seed(1);
  nn::Linear in_out(3, 5, true, at::kDouble, nn::Linear::Layout::kInOut), out_in(3, 5, true, at::kDouble);
  const at::Tensor weight = at::randn({3, 5}, at::kDouble), bias = at::randn({5}, at::kDouble);
  bind(in_out.weight, weight);
  bind(in_out.bias, bias);
  bind(out_in.weight, weight.t().contiguous());
  bind(out_in.bias, bias);
  const at::Tensor x = at::randn({2, 4, 3}, at::kDouble);
  const at::Tensor expected = at::matmul(x, weight) + bias;
  EXPECT_TRUE(is_near(in_out(x), expected, kKernelFp64));
  EXPECT_TRUE(is_near(out_in(x), expected, kKernelFp64));
}

// Takes a part into the graph, but has no gradient for it, as a loss that does not use it.
class WithoutPart : public torch::autograd::Function<WithoutPart> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor&, const at::Tensor& rest) {
    return rest.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {at::Tensor(), gradients[0]};
  }
};

// On every machine: a strategy tells from it which parameters are not used.
TEST(Linear, HasNoGradientWhereNoLossReachesIt) {
  for (const auto layout : {nn::Linear::Layout::kOutIn, nn::Linear::Layout::kInOut}) {
    const at::Tensor weight = at::randn({4, 4}), bias = at::randn({4});
    const nn::Linear layer(weight.set_requires_grad(true), bias.set_requires_grad(true), layout);
    const at::Tensor x = at::randn({2, 3, 4}).requires_grad_(true),
                     rest = at::randn({2}).requires_grad_(true);
    at::Tensor part = layer(x);
    for (const char* name : {"gelu", "gelu_new"}) part = nn::activation(name)(part);
    part = nn::Dropout(0.5)(part);
    WithoutPart::apply(part, rest).sum().backward();
    EXPECT_TRUE(rest.grad().defined());
    for (const at::Tensor& of_part : {weight, bias, x}) EXPECT_FALSE(of_part.grad().defined());
  }
}

// Also if one result is not used, and if the first weight is frozen.
TEST(Linear, LayersOfOneInputHaveTheResultsAndGradientsOfEach) {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const bool uses_all : {true, false}) {
      const at::Tensor x = at::randn({4, 200, 64}, type).requires_grad_(true);
      const Tensors weights = {at::randn({96, 64}, type), at::randn({80, 64}, type),
                               at::randn({64, 64}, type)};
      const at::Tensor bias = at::randn({80}, type);
      const nn::Linear first(weights[0], {}), second(weights[1], bias), third(weights[2], {});
      weights[0].set_requires_grad(false);
      const auto gradients = [&](const Tensors& results) {
        at::Tensor sum = results[0].square().sum() + (results[1] * 3).sum();
        if (uses_all) sum = sum + results[2].square().sum();
        Tensors found = torch::autograd::grad({sum}, {x, weights[1], bias, weights[2]}, {}, {}, false,
                                              /*allow_unused=*/true);
        found.insert(found.end(), results.begin(), results.end());
        return found;
      };
      const Tensors apart = gradients({first(x), second(x), third(x)}),
                    joined = gradients(nn::linears(x, {&first, &second, &third}));
      ASSERT_EQ(joined.size(), apart.size());
      for (size_t i = 0; i < apart.size(); ++i) {
        ASSERT_EQ(joined[i].defined(), apart[i].defined()) << i;
        if (apart[i].defined()) EXPECT_TRUE(is_near(joined[i], apart[i], kKernelFp32)) << i;
      }
    }
  }
}

TEST(Linear, RunsTheOperationOfThePlan) {
  struct Negated final : nn::LinearOperation {
    at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
      return -at::linear(x, layer.weight);
    }
  };
  nn::Linear linear(2, 2, false, at::kFloat);
  bind(linear.weight, at::eye(2));
  linear.operation = std::make_shared<Negated>();
  EXPECT_TRUE(linear(at::ones({1, 2})).equal(-at::ones({1, 2})));
}

TEST(Embedding, RefusesIdsOutOfRangeNamingThem) {
  nn::Embedding embedding(4, 3, at::kFloat);
  bind(embedding.weight, at::randn({4, 3}));
  EXPECT_ERROR(embedding(at::tensor({0, 4}, at::kLong).view({1, 2})), WEFT_INVALID_ARGUMENT, "4", "[0, 1]",
               "0 to 3");
  EXPECT_ERROR(embedding(at::tensor({-1}, at::kLong)), WEFT_INVALID_ARGUMENT, "-1", "[0]");
  EXPECT_ERROR(embedding(at::zeros({2})), WEFT_INVALID_ARGUMENT, "Float", "int64");
  EXPECT_TRUE(embedding(at::tensor({2}, at::kLong))[0].equal(embedding.weight[2]));
}

TEST(Embedding, GivesTheRowOfPaddingNoGradient) {
  nn::Embedding embedding(4, 3, at::kFloat, 2);
  bind(embedding.weight, at::randn({4, 3}));
  embedding(at::tensor({2, 1, 2, 0}, at::kLong)).sum().backward();
  EXPECT_TRUE(embedding.weight.grad()[2].eq(0).all().item<bool>());
  EXPECT_TRUE(embedding.weight.grad()[1].eq(1).all().item<bool>());
}

TEST(LayerNorm, NormalisesTheLastDimension) {
  nn::LayerNorm norm(6, 1e-3, at::kDouble);
  at::manual_seed(2);
  bind(norm.weight, at::randn({6}, at::kDouble));
  bind(norm.bias, at::randn({6}, at::kDouble));
  const at::Tensor x = at::randn({2, 3, 6}, at::kDouble) * 4 + 1;
  const at::Tensor centred = x - x.mean(-1, true);
  const at::Tensor expected =
      centred / (centred.square().mean(-1, true) + 1e-3).sqrt() * norm.weight + norm.bias;
  EXPECT_TRUE(is_near(norm(x), expected, kKernelFp64));
}

// Under a plan too, whose operation gets no parameter that does not exist.
TEST(LayerNorm, NeedsNoParameters) {
  nn::LayerNorm norm(6, 1e-3, at::kDouble, /*affine=*/false);
  EXPECT_TRUE(norm.parameters().empty());
  struct Refuses final : nn::NormOperation {
    at::Tensor parameter(const at::Tensor& parameter) const override {
      EXPECT_TRUE(parameter.defined());
      return parameter;
    }
  };
  norm.operation = std::make_shared<Refuses>();
  at::manual_seed(2);
  const at::Tensor x = at::randn({2, 3, 6}, at::kDouble) * 4 + 1;
  const at::Tensor centred = x - x.mean(-1, true);
  const at::Tensor expected = centred / (centred.square().mean(-1, true) + 1e-3).sqrt();
  for (const bool fused : {true, false}) {
    norm.fused = fused;
    EXPECT_TRUE(is_near(norm(x), expected, kKernelFp64)) << fused;
  }
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  nn::Dropout dropout(0.5);
  const at::Tensor x = at::ones({1000});
  EXPECT_FALSE(dropout(x).equal(x));
  EXPECT_NEAR(dropout(x).mean().item<double>(), 1, 0.2);
  dropout.eval();
  EXPECT_TRUE(dropout(x).equal(x));
}

}  // namespace

}  // namespace weft::test
