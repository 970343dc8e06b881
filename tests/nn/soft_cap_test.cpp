// Soft caps of scores and of logits. tests/nn/families compares them with Hugging Face.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/key_value_cache.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/masks.hpp"

namespace weft::test {

namespace {

using nn::AttentionOptions;
using Tensors = std::vector<at::Tensor>;

constexpr double kCap = 1.2, kScale = 0.7;

// Queries (2, 9, 4, D), keys and values (2, 9, G, D).
Tensors random_heads(int64_t groups, int64_t size, at::ScalarType dtype) {
  at::manual_seed(7);
  const auto heads = [&](int64_t count) {
    return at::randn({2, 9, count, size}, at::kDouble).to(dtype).requires_grad_(true);
  };
  return {heads(4), heads(groups), heads(groups)};
}

// Returns (2, 9, 4 D). `allowed` broadcasts to (2, 4, 9, 9); `kept` multiplies the probabilities.
at::Tensor formula(const Tensors& in, const at::Tensor& allowed, const at::Tensor& kept = {}) {
  const auto repeated = [&](const at::Tensor& x) {
    return x.repeat_interleave(4 / x.size(2), 2).transpose(1, 2);
  };
  const at::Tensor scores =
      kCap * at::tanh(at::matmul(in[0].transpose(1, 2), repeated(in[1]).transpose(-1, -2)) * kScale / kCap);
  at::Tensor weights =
      scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity()).softmax(-1);
  if (kept.defined()) weights = weights * kept;
  return at::matmul(weights, repeated(in[2])).transpose(1, 2).flatten(2);
}

Tensors gradients(const at::Tensor& output, const Tensors& in) {
  at::manual_seed(3);
  return torch::autograd::grad({(output * at::randn(output.sizes(), output.options())).sum()}, in);
}

at::Tensor causal(int64_t window = 9) {
  const at::Tensor ones = at::ones({9, 9}, at::kBool);
  return ones.tril().logical_and(ones.triu(1 - window));
}

// The first key of row 0 and the last two of row 1 are padding.
at::Tensor padding() {
  at::Tensor mask = at::ones({2, 1, 1, 9}, at::kBool);
  mask.select(0, 0).slice(-1, 0, 1).fill_(false);
  mask.select(0, 1).slice(-1, 7, 9).fill_(false);
  return mask;
}

TEST(SoftCap, IsNotNegative) {
  const Tensors in = random_heads(4, 4, at::kDouble);
  for (const double cap : {-1.0, std::nan("")}) {
    EXPECT_ERROR(nn::self_attention(in[0], in[1], in[2], {}, {.soft_cap = cap}), WEFT_INVALID_ARGUMENT,
                 "soft cap", "0 (none)");
    EXPECT_ERROR(nn::soft_capped(in[0], cap), WEFT_INVALID_ARGUMENT, "soft cap");
  }
  EXPECT_TRUE(nn::soft_capped(in[0], 0).is_same(in[0]));
  EXPECT_ERROR(nn::self_attention(in[0], in[1], in[2], {}, {.window = 3, .soft_cap = 1}),
               WEFT_INVALID_ARGUMENT, "window", "causal");
}

// Heads of 16 channels in fp32 are those of Weft's kernel, which has no cap.
TEST(SoftCap, BendsTheScoresOfEveryFormBeforeTheMask) {
  struct Case {
    const char* name;
    AttentionOptions options;
    at::Tensor mask, allowed;
  };
  const std::vector<Case> cases = {{"all", {}, {}, at::ones({9, 9}, at::kBool)},
                                   {"causal", {.causal = true}, {}, causal()},
                                   {"window", {.causal = true, .window = 3}, {}, causal(3)},
                                   {"padding", {}, padding(), padding()},
                                   {"mask", {}, causal(), causal()}};
  for (Case one : cases)
    for (const int64_t groups : {4, 2, 1})
      for (const auto& [size, dtype] : {std::pair(int64_t{5}, at::kDouble), {int64_t{16}, at::kFloat}})
        for (const bool fused : {true, false}) {
          SCOPED_TRACE(std::string(one.name) + " " + std::to_string(groups) + " " + std::to_string(size));
          const Tensors in = random_heads(groups, size, dtype);
          one.options.scale = kScale;
          one.options.soft_cap = kCap;
          one.options.fused = fused;
          const double tolerance = dtype == at::kDouble ? 1e-12 : 1e-5;
          const at::Tensor found = nn::self_attention(in[0], in[1], in[2], one.mask, one.options),
                           wanted = formula(in, one.allowed);
          EXPECT_TRUE(is_near(found, wanted, tolerance));
          const Tensors actual = gradients(found, in), expected = gradients(wanted, in);
          for (size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(is_near(actual[i], expected[i], tolerance)) << i;
        }
}

TEST(SoftCap, IsThatOfPackedHeads) {
  const Tensors in = random_heads(4, 16, at::kFloat);
  const at::Tensor packed = nn::self_attention(at::stack({in[0], in[1], in[2]}, 2), {},
                                               {.causal = true, .scale = kScale, .soft_cap = kCap});
  EXPECT_TRUE(is_near(packed, formula(in, causal()), 1e-5));
}

TEST(SoftCap, LeavesDropoutToTheProbabilities) {
  const Tensors in = random_heads(4, 5, at::kDouble);
  at::manual_seed(21);
  const at::Tensor kept = at::dropout(at::ones({2, 4, 9, 9}, at::kDouble), 0.4, true);
  at::manual_seed(21);
  const at::Tensor found = nn::self_attention(
      in[0], in[1], in[2], {}, {.causal = true, .scale = kScale, .soft_cap = kCap, .dropout = 0.4});
  EXPECT_TRUE(is_near(found, formula(in, causal(), kept), 1e-12));
}

// A row of a mask of the lowest value is finite in every dtype.
TEST(SoftCap, IsNearInHalfPrecision) {
  const Tensors exact = random_heads(2, 16, at::kFloat);
  at::Tensor mask = padding();
  mask.select(0, 1).fill_(false);
  const auto wanted = formula(exact, padding());
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf})
    for (const bool upcast : {false, true}) {
      Tensors in;
      for (const at::Tensor& x : exact) in.push_back(x.detach().to(dtype));
      const at::Tensor found = nn::self_attention(in[0], in[1], in[2], nn::additive_mask(mask, dtype),
                                                  {.scale = kScale, .soft_cap = kCap, .upcast = upcast});
      EXPECT_EQ(found.scalar_type(), dtype);
      EXPECT_TRUE(is_near(found[0].to(at::kFloat), wanted[0], 2e-2));
      EXPECT_TRUE(at::isfinite(found).all().item<bool>());
    }
}

class CachedLayer final : public nn::Attention {
 public:
  using Attention::attend;
};

TEST(SoftCap, ContinuesSequencesWithACache) {
  const at::NoGradGuard no_grad;
  for (const int64_t groups : {4, 2, 1})
    for (const int64_t window : {0, 3}) {
      const CachedLayer layer;
      const Tensors in = random_heads(groups, 4, at::kFloat);
      const AttentionOptions options = {.causal = true, .window = window, .scale = kScale, .soft_cap = kCap};
      nn::KeyValueCache cache;
      Tensors results;
      for (const int64_t count : {4, 1, 3, 1}) {
        nn::ForwardContext context({}, {}, &cache);
        const nn::RunningUnit unit(context, 0);
        const auto own = [&](const at::Tensor& x) { return x.narrow(1, cache.past(), count); };
        const at::Tensor q = own(in[0]), k = own(in[1]), v = own(in[2]);
        cache.begin(count);
        results.push_back(layer.attend(q, k, v, {}, options));
        cache.end();
      }
      EXPECT_TRUE(is_near(at::cat(results, 1), formula(in, causal(window == 0 ? 9 : window)), 1e-5))
          << groups << " " << window;
    }
}

// Returns loss, logits and the gradients of hidden states and weight of a language model's head.
Tensors head_results(double cap, bool loss_alone) {
  torch::nn::Module module("model");
  const nn::LanguageHead head(module,
                              {.channels = 6, .vocabulary = 11, .dtype = at::kDouble, .soft_cap = cap});
  at::manual_seed(5);
  const at::Tensor hidden = at::randn({2, 8, 6}, at::kDouble).set_requires_grad(true),
                   labels = at::randint(11, {2, 8}, at::kLong),
                   weight = at::randn({11, 6}, at::kDouble).set_requires_grad(true);
  const_cast<at::Tensor&>(head.layer().weight) = weight;
  const Batch batch = {{nn::kLabels, labels}};
  nn::ForwardContext context({{"", 8, 2, {{0, 8}}}});
  if (loss_alone) context.want_loss_alone(batch);
  const nn::RunningUnit running(context, 0);
  State state = {{nn::kHidden, hidden}};
  head.forward([](const at::Tensor& x) { return x; }, state);
  const at::Tensor logits = state.at("logits").detach().clone(), loss = head.loss(state, batch).at(0).sum;
  loss.backward();
  if (cap != 0) {
    const at::Tensor plain = at::matmul(hidden.detach(), weight.detach().t());
    EXPECT_TRUE(is_near(logits, cap * at::tanh(plain / cap), 1e-12));
  }
  return {loss.detach(), hidden.grad(), weight.grad()};
}

TEST(SoftCap, OfLogitsIsPartOfTheLoss) {
  const Tensors found = head_results(1.5, false), alone = head_results(1.5, true);
  // The same by plain operations.
  at::manual_seed(5);
  const at::Tensor hidden = at::randn({2, 8, 6}, at::kDouble).set_requires_grad(true),
                   labels = at::randint(11, {2, 8}, at::kLong),
                   weight = at::randn({11, 6}, at::kDouble).set_requires_grad(true);
  const at::Tensor logits = 1.5 * at::tanh(at::matmul(hidden, weight.t()) / 1.5);
  const at::Tensor loss = at::cross_entropy_loss(logits.slice(1, 0, 7).flatten(0, 1),
                                                 labels.slice(1, 1).flatten(), {}, at::Reduction::Sum);
  loss.backward();
  const Tensors wanted = {loss.detach(), hidden.grad(), weight.grad()};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(is_near(found[i], wanted[i], 1e-12)) << i;
    EXPECT_TRUE(is_near(alone[i], wanted[i], 1e-12)) << i;
  }
  EXPECT_FALSE(is_near(head_results(0, false)[1], wanted[1], 1e-2));
}

}  // namespace

}  // namespace weft::test
