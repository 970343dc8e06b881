#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

// B 3, H 2, T 9, D 5, with the strides of a fused projection.
struct Inputs {
  at::Tensor fused, q, k, v;
  explicit Inputs(at::ScalarType dtype = at::kDouble) {
    at::manual_seed(11);
    fused = at::randn({3, 9, 3, 2, 5}, dtype).requires_grad_(true);
    q = fused.select(2, 0).transpose(1, 2);
    k = fused.select(2, 1).transpose(1, 2);
    v = fused.select(2, 2).transpose(1, 2);
  }
};

// Returns softmax(scale q k^T + mask) v, computed step by step. `allowed`: (..., T, T).
at::Tensor formula(const Inputs& in, const at::Tensor& allowed, double scale) {
  const at::Tensor scores = at::matmul(in.q, in.k.transpose(-1, -2)) * scale;
  return at::matmul(
      scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity()).softmax(-1), in.v);
}

at::Tensor lower_triangle() {
  return at::ones({9, 9}, at::kBool).tril();
}

// Returns a mask (B, 1, 1, T) in which the last two keys of row 0 and the first three of row 2 are padding.
at::Tensor padding() {
  at::Tensor mask = at::ones({3, 1, 1, 9}, at::kBool);
  mask.select(0, 0).slice(-1, 7, 9).fill_(false);
  mask.select(0, 2).slice(-1, 0, 3).fill_(false);
  return mask;
}

at::Tensor gradient(Inputs& in, const at::Tensor& output) {
  at::manual_seed(3);
  (output * at::randn(output.sizes(), output.options())).sum().backward();
  const at::Tensor result = in.fused.grad().clone();
  in.fused.mutable_grad().reset();
  return result;
}

TEST(Attention, IsSoftmaxOfScaledScores) {
  Inputs in;
  const at::Tensor expected = formula(in, at::ones({9, 9}, at::kBool), 1 / std::sqrt(5.0));
  const at::Tensor output = nn::attention(in.q, in.k, in.v, {}, {});
  EXPECT_TRUE(is_near(output, expected, kKernelFp64));
  EXPECT_TRUE(is_near(gradient(in, output), gradient(in, expected), 1e-12));
}

TEST(Attention, CausalSeesNoLaterKey) {
  Inputs in;
  const at::Tensor expected = formula(in, lower_triangle(), 0.3);
  const at::Tensor output = nn::attention(in.q, in.k, in.v, {}, {.causal = true, .scale = 0.3});
  EXPECT_TRUE(is_near(output, expected, kKernelFp64));
  EXPECT_TRUE(is_near(gradient(in, output), gradient(in, expected), 1e-12));
}

// Position i sees i - window + 1 ... i.
at::Tensor window_of(int64_t window) {
  return lower_triangle().logical_and(at::ones({9, 9}, at::kBool).triu(1 - window));
}

TEST(Attention, WindowNeedsCausalAndIsNotNegative) {
  const Inputs in;
  EXPECT_ERROR(nn::attention(in.q, in.k, in.v, {}, {.window = 3}), WEFT_INVALID_ARGUMENT, "window", "3",
               "causal");
  EXPECT_ERROR(nn::attention(in.q, in.k, in.v, {}, {.causal = true, .window = -1}), WEFT_INVALID_ARGUMENT,
               "window", "-1");
}

TEST(Attention, WindowSeesItsPositionsOnly) {
  Inputs in;
  for (const int64_t window : {1, 2, 5, 8, 9, 100}) {
    const at::Tensor expected = formula(in, window_of(window), 0.3);
    for (const bool fused : {true, false}) {
      const at::Tensor output = nn::attention(
          in.q, in.k, in.v, {}, {.causal = true, .window = window, .scale = 0.3, .fused = fused});
      EXPECT_TRUE(is_near(output, expected, kKernelFp64)) << window;
      EXPECT_TRUE(is_near(gradient(in, output), gradient(in, formula(in, window_of(window), 0.3)), 1e-12))
          << window;
    }
  }
}

TEST(Attention, WindowAndPaddingAreBothHeeded) {
  Inputs in;
  const at::Tensor allowed = window_of(4).logical_and(padding());
  const at::Tensor defined = allowed.any(-1).unsqueeze(-1).expand({3, 2, 9, 5});
  const at::Tensor output = nn::attention(in.q, in.k, in.v, padding(), {.causal = true, .window = 4});
  const auto of_defined = [&](const at::Tensor& x) { return x.masked_fill(defined.logical_not(), 0); };
  EXPECT_TRUE(is_near(of_defined(output), of_defined(formula(in, allowed, 1 / std::sqrt(5.0))), kKernelFp64));
  EXPECT_TRUE(at::isfinite(output).all().item<bool>());
}

// Heads of queries that share keys, of a size that Weft's kernel takes (16) or not.
TEST(Attention, WindowOfGroupedQueriesIsThatOfRepeatedKeys) {
  at::manual_seed(5);
  for (const int64_t size : {6, 16})
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor q = at::randn({2, 41, 4, size}, dtype), k = at::randn({2, 41, 2, size}, dtype),
                       v = at::randn({2, 41, 2, size}, dtype);
      for (const int64_t window : {2, 7, 32, 33, 40, 41}) {
        const auto attended = [&](const at::Tensor& mask, int64_t window) {
          std::vector<at::Tensor> results;
          std::vector<at::Tensor> leaves = {q.clone(), k.clone(), v.clone()};
          for (at::Tensor& leaf : leaves) leaf.requires_grad_(true);
          const at::Tensor out =
              nn::self_attention(leaves[0], leaves[1], leaves[2], mask, {.causal = true, .window = window});
          (out * at::linspace(-1, 1, out.size(2), out.options())).sum().backward();
          results.push_back(out.detach());
          for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
          return results;
        };
        const at::Tensor allowed = at::ones({41, 41}, at::kBool).triu(1 - window).view({1, 1, 41, 41});
        const auto found = attended({}, window), expected = attended(allowed, 0);
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(is_near(found[i], expected[i], dtype == at::kFloat ? 1e-5 : 1e-12))
              << size << " " << window << " " << i;
      }
    }
}

TEST(Attention, CausalAndPaddingAreBothHeeded) {
  Inputs in;
  const at::Tensor allowed = lower_triangle().logical_and(padding());
  const at::Tensor additive =
      at::zeros({3, 1, 1, 9}, at::kDouble).masked_fill_(padding().logical_not(), -1e30);
  const at::Tensor defined = allowed.any(-1).unsqueeze(-1).expand({3, 2, 9, 5});
  const at::Tensor expected = formula(in, allowed, 1).masked_fill(defined.logical_not(), 0);
  for (const at::Tensor& mask : {padding(), additive}) {
    const at::Tensor output = nn::attention(in.q, in.k, in.v, mask, {.causal = true, .scale = 1});
    EXPECT_TRUE(is_near(output.masked_fill(defined.logical_not(), 0), expected, kKernelFp64));
  }
}

// Compares the kernel and the general function with the formula in fp64, at sizes around the kernel's blocks
// of 32 queries and 16 lanes.
TEST(SelfAttention, AgreesWithTheFormulaAtEverySize) {
  for (int64_t positions : {1, 5, 16, 31, 32, 33, 64, 100}) {
    for (int64_t size : {6, 16, 48, 64}) {
      for (bool causal : {false, true}) {
        at::manual_seed(positions * 100 + size);
        const at::Tensor qkv = (at::randn({2, positions, 3, 3, size}) * 1.5).requires_grad_(true);
        const at::Tensor exact = qkv.detach().to(at::kDouble).requires_grad_(true);
        const at::Tensor up = at::randn({2, positions, 3 * size});
        const at::Tensor found = nn::self_attention(qkv, {}, {.causal = causal, .scale = 0.2});
        const auto part = [&](int64_t index) { return exact.select(2, index).transpose(1, 2); };
        at::Tensor scores = at::matmul(part(0), part(1).transpose(-1, -2)) * 0.2;
        if (causal) {
          const at::Tensor later = at::ones({positions, positions}, at::kBool).triu(1);
          scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
        }
        const at::Tensor expected =
            at::matmul(scores.softmax(-1), part(2)).transpose(1, 2).reshape({2, positions, 3 * size});
        EXPECT_TRUE(is_near(found, expected, kKernelFp32)) << positions << " " << size << " " << causal;
        (found * up).sum().backward();
        (expected * up).sum().backward();
        for (int64_t index : {0, 1, 2}) {
          // Relative to the largest gradient of all three, because with one key those of q and k cancel.
          const double error = (qkv.grad() - exact.grad()).select(2, index).abs().max().item<double>();
          EXPECT_LE(error, 5 * kKernelFp32 * exact.grad().abs().max().item<double>())
              << positions << " " << size << " " << causal << " " << index;
        }
      }
    }
  }
}

// Compares grouped heads of k and v with repeated ones: with the kernel (16 channels), without it, and with a
// mask.
TEST(SelfAttention, TreatsGroupedQueriesAsRepeatedKeys) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (int64_t groups : {1, 2, 6}) {
      for (const at::Tensor& mask : {at::Tensor(), padding()}) {
        at::manual_seed(groups);
        const auto leaf = [&](int64_t heads) {
          return at::randn({3, 9, heads, 16}, dtype).requires_grad_(true);
        };
        const at::Tensor q = leaf(6), k = leaf(groups), v = leaf(groups), up = at::randn({3, 9, 96}, dtype);
        const nn::AttentionOptions options = {.causal = true, .scale = 0.4};
        // libtorch's fused kernel has other gradients than the formula for queries whose keys are all masked.
        const nn::AttentionOptions formula = {.causal = true, .scale = 0.4, .fused = dtype == at::kDouble};
        const at::Tensor found = nn::self_attention(q, k, v, mask, options);
        const auto repeated = [&](const at::Tensor& x) {
          return x.repeat_interleave(6 / groups, 2).transpose(1, 2).to(at::kDouble);
        };
        const at::Tensor expected =
            nn::attention(q.transpose(1, 2).to(at::kDouble), repeated(k), repeated(v), mask, formula)
                .transpose(1, 2)
                .flatten(2);
        const double tolerance = dtype == at::kFloat ? kKernelFp32 : kKernelFp64;
        EXPECT_TRUE(is_near(found, expected, tolerance)) << dtype << " " << groups << " " << mask.defined();
        const auto gradients = [&](const at::Tensor& output) {
          return torch::autograd::grad({(output * up).sum()}, {q, k, v});
        };
        const auto actual = gradients(found), wanted = gradients(expected);
        for (size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(is_near(actual[i], wanted[i], 10 * tolerance)) << dtype << " " << groups << " " << i;
      }
    }
  }
}

// A mask or a bias of the scores (B, H, T, S), and whether it is learned.
struct Added {
  std::vector<int64_t> shape;
  bool is_learned;
};

// Compares the kernel with the formula in fp64, with masks and biases that serve several samples, heads or
// queries, and with other numbers of keys than of queries.
TEST(SelfAttention, AddsMasksAndBiasesAtEverySize) {
  constexpr int64_t kBatch = 3, kHeads = 4, kSize = 32;
  for (const auto& [queries, keys] : {std::pair(37, 37), {37, 70}, {5, 16}, {64, 33}})
    for (const bool causal : {false, true}) {
      if (causal && queries != keys) continue;
      for (const auto& [shape, is_learned] : {Added{{kBatch, 1, 1, keys}, false},
                                              {{1, 1, queries, keys}, false},
                                              {{1, kHeads, 1, keys}, false},
                                              {{1, kHeads, queries, keys}, true},
                                              {{kBatch, kHeads, queries, keys}, true}})
        for (const int64_t groups : {2, 4}) {
          at::manual_seed(queries + keys);
          const auto leaf = [&](at::IntArrayRef of) { return at::randn(of).requires_grad_(true); };
          std::vector<at::Tensor> leaves = {leaf({kBatch, queries, kHeads, kSize}),
                                            leaf({kBatch, keys, groups, kSize}),
                                            leaf({kBatch, keys, groups, kSize})};
          const at::Tensor up = at::randn({kBatch, queries, kHeads * kSize});
          // Some keys are hidden from some or all queries, one of them by infinity.
          at::Tensor added = at::randn(shape);
          added.masked_fill_(at::rand(shape).lt(0.2), std::numeric_limits<float>::lowest());
          added.select(-1, keys / 2).fill_(-std::numeric_limits<float>::infinity());
          if (is_learned) leaves.push_back(added.requires_grad_(true));
          const auto attended = [&](at::ScalarType dtype, bool fused) {
            return nn::self_attention(leaves[0].to(dtype), leaves[1].to(dtype), leaves[2].to(dtype),
                                      added.to(dtype), {.causal = causal, .scale = 0.4, .fused = fused});
          };
          const at::Tensor found = attended(at::kFloat, true), expected = attended(at::kDouble, false);
          EXPECT_TRUE(is_near(found, expected, kKernelFp32)) << queries << " " << keys << " " << causal;
          const auto actual = torch::autograd::grad({(found * up).sum()}, leaves),
                     wanted = torch::autograd::grad({(expected * up).sum()}, leaves);
          for (size_t i = 0; i < leaves.size(); ++i)
            EXPECT_TRUE(is_near(actual[i], wanted[i], 5 * kKernelFp32))
                << queries << " " << keys << " " << causal << " " << shape << " " << groups << " " << i;
        }
    }
}

// A learned bias of which one value serves several heads or queries, and rows in which all keys are hidden.
TEST(SelfAttention, FollowsTheFormulaForOtherBiasesAndHiddenRows) {
  at::manual_seed(4);
  const auto leaf = [] { return at::randn({2, 20, 2, 16}).requires_grad_(true); };
  const at::Tensor q = leaf(), v = leaf(), up = at::randn({2, 20, 32});
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{1, 1, 20, 20}, {2, 2, 1, 20}}) {
    const at::Tensor bias = at::randn(shape).requires_grad_(true);
    const auto gradients = [&](at::ScalarType dtype) {
      const at::Tensor out = nn::self_attention(q.to(dtype), q.to(dtype), v.to(dtype), bias.to(dtype),
                                                {.fused = dtype == at::kFloat});
      return torch::autograd::grad({(out * up).sum()}, {q, v, bias});
    };
    const auto found = gradients(at::kFloat), expected = gradients(at::kDouble);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(is_near(found[i], expected[i], 5 * kKernelFp32)) << shape << " " << i;
  }
  // Weights are equal where all keys have the lowest finite value, and 0 where all have -infinity.
  at::Tensor mask = at::zeros({1, 1, 20, 20});
  mask.select(2, 3).fill_(std::numeric_limits<float>::lowest());
  mask.select(2, 7).fill_(-std::numeric_limits<float>::infinity());
  const at::Tensor out = nn::self_attention(q, q, v, mask, {});
  const auto row = [](const at::Tensor& x, int64_t position) { return x.select(1, position); };
  EXPECT_TRUE(is_near(row(out, 3), v.mean(1).flatten(1), kKernelFp32));
  EXPECT_EQ(row(out, 7).abs().max().item<float>(), 0);
  const at::Tensor of_hidden = torch::autograd::grad({(row(out, 3) * row(up, 3)).sum()}, {v}, {}, true)[0];
  EXPECT_TRUE(is_near(row(of_hidden, 11), row(up, 3).view({2, 2, 16}) / 20, kKernelFp32));
  const at::Tensor of_none = torch::autograd::grad({row(out, 7).sum()}, {v})[0];
  EXPECT_EQ(of_none.abs().max().item<float>(), 0);
}

// A rank may have no queries, and a batch no rows.
TEST(SelfAttention, HasGradientsOfZeroForNoQueriesOrRows) {
  for (const auto& [rows, queries] : {std::pair(2, 0), {0, 5}}) {
    const auto leaf = [rows = rows](int64_t positions) {
      return at::randn({rows, positions, 2, 16}).requires_grad_(true);
    };
    const at::Tensor q = leaf(queries), k = leaf(5), v = leaf(5);
    const at::Tensor mask = at::zeros({1, 1, 1, 5});
    const at::Tensor out = nn::self_attention(q, k, v, mask, {});
    EXPECT_EQ(out.sizes(), (at::IntArrayRef{rows, queries, 32}));
    for (const at::Tensor& gradient : torch::autograd::grad({out.sum()}, {q, k, v}))
      EXPECT_EQ(gradient.abs().sum().item<float>(), 0);
  }
}

TEST(Attention, RowsWithoutAKeyAreFinite) {
  Inputs in(at::kFloat);
  const at::Tensor output = nn::attention(in.q, in.k, in.v, padding(), {.causal = true});
  EXPECT_TRUE(output.isfinite().all().item<bool>());
  EXPECT_TRUE(gradient(in, output).isfinite().all().item<bool>());
}

TEST(Attention, DropoutKeepsTheMean) {
  Inputs in;
  const at::Tensor expected = nn::attention(in.q, in.k, in.v, {}, {.causal = true});
  EXPECT_FALSE(nn::attention(in.q, in.k, in.v, {}, {.causal = true, .dropout = 0.5}).equal(expected));
  at::Tensor mean = at::zeros_like(expected);
  at::manual_seed(1);
  for (int i = 0; i < 4000; ++i)
    mean += nn::attention(in.q, in.k, in.v, {}, {.causal = true, .dropout = 0.2}) / 4000;
  EXPECT_TRUE(is_near(mean.detach(), expected.detach(), 0.03));
}

TEST(Attention, UpcastOfBf16RoundsTheResultOnly) {
  Inputs in(at::kBFloat16);
  const at::Tensor exact =
      nn::attention(in.q.to(at::kFloat), in.k.to(at::kFloat), in.v.to(at::kFloat), {}, {});
  const at::Tensor output = nn::attention(in.q, in.k, in.v, {}, {.upcast = true});
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(output.equal(exact.to(at::kBFloat16)));
}

}  // namespace

}  // namespace weft::test
