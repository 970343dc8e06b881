// Compares the kernels of layers with libtorch's in fp64.
#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <gtest/gtest.h>

#include <limits>

#include "cpu/attention.hpp"
#include "cpu/cross_entropy.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/dropout.hpp"
#include "cpu/few_rows.hpp"
#include "cpu/gated.hpp"
#include "cpu/gelu.hpp"
#include "cpu/product.hpp"
#include "cpu/rotary.hpp"
#include "cpu/transpose.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

TEST(Gelu, AgreesWithLibtorchAtEverySizeAndValue) {
  for (int64_t count : {1, 15, 16, 17, 1000}) {
    const at::Tensor x = at::linspace(-12, 12, count, at::kFloat).requires_grad_(true);
    const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor found = nn::activation("gelu_new")(x), expected = at::gelu(exact, "tanh");
    EXPECT_LE((found - expected).abs().max().item<double>(), 2e-6) << count;
    at::manual_seed(count);
    const at::Tensor up = at::randn({count});
    (found * up).sum().backward();
    (expected * up).sum().backward();
    EXPECT_TRUE(is_near(x.grad(), exact.grad(), kKernelFp32)) << count;
  }
}

TEST(Gelu, IsFiniteAtTheEndsOfTheRange) {
  const at::Tensor x = at::tensor({-1e4f, -100.f, 100.f, 1e4f}).requires_grad_(true);
  const at::Tensor y = nn::activation("gelu_new")(x);
  EXPECT_TRUE(y.equal(at::tensor({0.f, 0.f, 100.f, 1e4f})));
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(at::tensor({0.f, 0.f, 1.f, 1.f})));
}

TEST(Transpose, PacksEveryShape) {
  for (int64_t rows : {1, 15, 16, 33, 200}) {
    for (int64_t columns : {1, 16, 31, 470}) {
      const at::Tensor x = at::randn({rows, columns}), packed = kernels::packed(x.t());
      EXPECT_TRUE(packed.is_contiguous());
      EXPECT_TRUE(packed.equal(x.t())) << rows << " " << columns;
    }
  }
  const at::Tensor strided = at::randn({40, 40}).slice(1, 0, 20);
  EXPECT_TRUE(kernels::packed(strided.t()).equal(strided.t()));
}

TEST(Product, AgreesInAllLayoutsBelowAndAboveTheLimits) {
  at::manual_seed(4);
  for (const auto& [rows, size] : {std::pair(7, 9), {150, 152}, {770, 70}, {770, 800}}) {
    const at::Tensor a = at::randn({rows, size}), b = at::randn({size + 1, size}),
                     bias = at::randn({size + 1}), added = at::randn({rows, size + 1});
    const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble).t());
    for (const at::Tensor& left : {a, a.t().contiguous().t()}) {
      for (const at::Tensor& right : {b, b.t().contiguous().t()}) {
        EXPECT_TRUE(is_near(kernels::product(left, right), exact, kKernelFp32)) << rows << " " << size;
        EXPECT_TRUE(is_near(kernels::product(left, right, bias), exact + bias, kKernelFp32))
            << rows << " " << size;
        EXPECT_TRUE(is_near(kernels::product_added_to(added, left, right), exact + added, kKernelFp32))
            << rows << " " << size;
      }
    }
  }
}

// The rows are those of generated tokens; more take libtorch's products.
TEST(Product, AgreesForFewRowsOnEveryInstructionSet) {
  using kernels::InstructionSet;
  at::manual_seed(9);
  const InstructionSet best = kernels::best_instruction_set();
  const auto restore = c10::make_scope_exit([&] { kernels::instruction_set() = best; });
  for (const InstructionSet set : {InstructionSet::kPortable, InstructionSet::kAvx2, best}) {
    if (set > best) continue;
    kernels::instruction_set() = set;
    for (const int64_t rows : {1, 2, 3, 7, 8})
      for (const int64_t inputs : {1, 16, 77, 200})
        for (const int64_t outputs : {1, 15, 64, 333})
          for (const bool outputs_are_rows : {true, false}) {
            // Positive, so that no sum cancels out.
            const at::Tensor x = at::rand({rows, inputs}), bias = at::rand({outputs});
            const at::Tensor w =
                at::rand({outputs_are_rows ? outputs : inputs, outputs_are_rows ? inputs : outputs});
            const at::Tensor matrix = outputs_are_rows ? w : w.t(), y = at::empty({rows, outputs});
            const at::Tensor exact = at::mm(x.to(at::kDouble), matrix.to(at::kDouble).t()) + bias;
            kernels::few_rows_product(rows, inputs, outputs, x.const_data_ptr<float>(),
                                      w.const_data_ptr<float>(), matrix.stride(0), matrix.stride(1),
                                      bias.const_data_ptr<float>(), y.mutable_data_ptr<float>());
            EXPECT_TRUE(is_near(y, exact, kKernelFp32)) << rows << " " << inputs << " " << outputs;
            if (rows == 1) continue;
            const at::Tensor last = at::empty({1, outputs});
            kernels::few_rows_product(1, inputs, outputs, x[rows - 1].const_data_ptr<float>(),
                                      w.const_data_ptr<float>(), matrix.stride(0), matrix.stride(1),
                                      bias.const_data_ptr<float>(), last.mutable_data_ptr<float>());
            EXPECT_TRUE(last[0].equal(y[rows - 1])) << rows << " " << inputs << " " << outputs;
          }
  }
}

TEST(Linear, HasTheGradientsOfItsProductInBothLayouts) {
  at::manual_seed(6);
  for (int64_t size : {4, 160}) {
    for (const bool biased : {false, true}) {
      const at::Tensor weight = at::randn({size, size + 8}), bias = at::randn({size + 8});
      const at::Tensor x = at::randn({3, size, size}).requires_grad_(true),
                       up = at::randn({3, size, size + 8});
      const nn::Linear in_out(weight.clone().requires_grad_(true),
                              biased ? bias.clone().requires_grad_(true) : at::Tensor(),
                              nn::Linear::Layout::kInOut);
      const nn::Linear out_in(weight.t().contiguous().requires_grad_(true),
                              biased ? bias.clone().requires_grad_(true) : at::Tensor());
      const at::Tensor exact = x.detach().to(at::kDouble), up64 = up.to(at::kDouble);
      const at::Tensor dx = at::matmul(up64, weight.to(at::kDouble).t());
      const at::Tensor dw = at::matmul(exact.reshape({-1, size}).t(), up64.reshape({-1, size + 8}));
      for (const nn::Linear* linear : {&in_out, &out_in}) {
        x.mutable_grad().reset();
        ((*linear)(x)*up).sum().backward();
        EXPECT_TRUE(is_near(x.grad(), dx, kKernelFp32));
        EXPECT_TRUE(linear->weight.grad().is_contiguous());
        EXPECT_TRUE(is_near(linear->weight.grad(), linear == &in_out ? dw : dw.t(), kKernelFp32));
        if (biased) EXPECT_TRUE(is_near(linear->bias.grad(), up64.sum(at::IntArrayRef{0, 1}), kKernelFp32));
      }
    }
  }
}

TEST(Linear, GivesNoGradientToWhatIsFrozen) {
  const nn::Linear linear(at::randn({64, 64}), at::Tensor());
  const at::Tensor x = at::randn({1024, 64}).requires_grad_(true);
  linear(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  const nn::Linear trained(at::randn({64, 64}).requires_grad_(true), at::Tensor());
  trained(at::randn({1024, 64})).sum().backward();
  EXPECT_TRUE(trained.weight.grad().defined());
}

// All other tests run with the best instruction set of the processor.
class EveryInstructionSet : public testing::TestWithParam<kernels::InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > kernels::best_instruction_set()) GTEST_SKIP() << "this processor does not have it";
    kernels::instruction_set() = GetParam();
  }
  void TearDown() override { kernels::instruction_set() = kernels::best_instruction_set(); }
};

float* data(const at::Tensor& x) {
  return x.mutable_data_ptr<float>();
}

TEST_P(EveryInstructionSet, CrossEntropyAgrees) {
  const at::Tensor logits = (at::randn({3, 77}) * 4).requires_grad_(true), gradient = at::empty({3, 77});
  const at::Tensor labels = at::tensor({4, -100, 76}, at::kLong);
  kernels::RowNormaliser<float> normalisers[3];
  const kernels::CrossEntropyRows rows = {3, 77, labels.const_data_ptr<int64_t>()};
  const double sum = kernels::cross_entropy_forward(rows, data(logits), normalisers);
  kernels::cross_entropy_backward(rows, data(logits), normalisers, 0.5f, data(gradient));
  const at::Tensor expected = at::cross_entropy_loss(logits.to(at::kDouble), labels, {}, at::Reduction::Sum);
  (expected * 0.5).backward();
  EXPECT_NEAR(sum, expected.item<double>(), 1e-5);
  EXPECT_TRUE(is_near(gradient, logits.grad(), kKernelFp32));
}

TEST_P(EveryInstructionSet, GeluAgrees) {
  for (const auto& [kind, name] : {std::pair(kernels::Gelu::kErf, "none"), {kernels::Gelu::kTanh, "tanh"}}) {
    const at::Tensor x = at::linspace(-9, 9, 333).requires_grad_(true), up = at::randn({333});
    const at::Tensor y = at::empty({333}), dx = at::empty({333}),
                     expected = at::gelu(x.to(at::kDouble), name);
    kernels::gelu_forward(kind, 333, data(x), data(y));
    kernels::gelu_backward(kind, 333, data(x), data(up), data(dx));
    (expected * up).sum().backward();
    EXPECT_TRUE(is_near(y, expected, kKernelFp32)) << name;
    EXPECT_TRUE(is_near(dx, x.grad(), kKernelFp32)) << name;
  }
}

TEST_P(EveryInstructionSet, AttentionAgrees) {
  constexpr int64_t kBatch = 2, kHeads = 3, kPositions = 75, kSize = 48;
  const auto heads = [](const at::Tensor& x) {
    return kernels::HeadsOf<float>{data(x), x.stride(0), x.stride(1), x.stride(2)};
  };
  const auto constant = [](const at::Tensor& x) {
    return kernels::HeadsOf<const float>{data(x), x.stride(0), x.stride(1), x.stride(2)};
  };
  std::vector<at::Tensor> in, gradients;
  for (int i = 0; i < 3; ++i)
    in.push_back(at::randn({kBatch, kHeads, kPositions, kSize}).requires_grad_(true));
  for (int i = 0; i < 3; ++i) gradients.push_back(at::empty_like(in[i]));
  const at::Tensor out = at::empty_like(in[0]), up = at::randn_like(out),
                   log_sums = at::empty({kBatch, kHeads, kPositions});
  // One bias for all samples; with other windows none.
  const at::Tensor bias = at::randn({kHeads, kPositions, kPositions}).requires_grad_(true);
  for (const int64_t window : {0, 2, 13, 33, 64}) {
    const bool is_biased = window == 0 || window == 33;
    const at::Tensor bias_gradient = at::zeros_like(bias);
    const auto added = [&](const at::Tensor& x) {
      return kernels::Bias{is_biased ? data(x) : nullptr, 0, x.stride(0), x.stride(1)};
    };
    const kernels::ConstBias constant_bias = {added(bias).data, 0, bias.stride(0), bias.stride(1)};
    const kernels::AttentionShape shape = {kBatch, kHeads, kPositions, kPositions, kSize,
                                           true,   0.3f,   1,          window};
    kernels::attention_forward(shape, constant(in[0]), constant(in[1]), constant(in[2]), constant_bias,
                               heads(out), data(log_sums));
    kernels::attention_backward(
        shape, constant(in[0]), constant(in[1]), constant(in[2]), constant_bias, constant(out), constant(up),
        data(log_sums),
        {heads(gradients[0]), heads(gradients[1]), heads(gradients[2]), added(bias_gradient)});
    at::Tensor allowed = at::ones({kPositions, kPositions}, at::kBool).tril();
    if (window > 0) allowed.triu_(1 - window);
    at::Tensor mask = at::zeros({1}, at::kDouble) + (is_biased ? bias.to(at::kDouble) : at::zeros({1}));
    mask = mask.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor expected = at::scaled_dot_product_attention(in[0].to(at::kDouble), in[1].to(at::kDouble),
                                                                 in[2].to(at::kDouble), mask, 0, false, 0.3);
    (expected * up).sum().backward();
    EXPECT_TRUE(is_near(out, expected, kKernelFp32)) << window;
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(is_near(gradients[i], in[i].grad(), 5 * kKernelFp32)) << window << " " << i;
      in[i].mutable_grad().reset();
    }
    if (is_biased) EXPECT_TRUE(is_near(bias_gradient, bias.grad(), 5 * kKernelFp32)) << window;
    bias.mutable_grad().reset();
  }
}

// Attention of one call, forward and backward. in: q, k, v (B, H, T, D).
struct AttentionCall {
  kernels::AttentionShape shape;
  std::vector<at::Tensor> in;
  at::Tensor up, out = at::empty_like(in[0]), log_sums = at::empty({shape.batch, shape.heads, shape.queries});
  std::vector<at::Tensor> gradients = {at::empty_like(in[0]), at::empty_like(in[1]), at::empty_like(in[2])};

  template <typename T>
  static kernels::HeadsOf<T> heads(const at::Tensor& x) {
    return {data(x), x.stride(0), x.stride(1), x.stride(2)};
  }
  void run() {
    const auto q = heads<const float>(in[0]), k = heads<const float>(in[1]), v = heads<const float>(in[2]);
    kernels::attention_forward(shape, q, k, v, {}, heads<float>(out), data(log_sums));
    kernels::attention_backward(
        shape, q, k, v, {}, heads<const float>(out), heads<const float>(up), data(log_sums),
        {heads<float>(gradients[0]), heads<float>(gradients[1]), heads<float>(gradients[2])});
  }
};

TEST_P(EveryInstructionSet, AttentionDropsProbabilities) {
  constexpr int64_t kBatch = 2, kHeads = 3, kPositions = 75;
  const auto draw = [](int64_t size) { return at::randn({kBatch, kHeads, kPositions, size}); };
  for (const bool causal : {false, true}) {
    kernels::AttentionShape shape = {kBatch, kHeads, kPositions, kPositions, 80, causal, 0.3f};
    shape.kept = 0.75;
    shape.seed = 42;
    // Equal probabilities of values that name their keys show the mask.
    const at::Tensor names = at::eye(kPositions, 80).expand({kBatch, kHeads, kPositions, 80}).contiguous();
    AttentionCall equal = {shape, {at::zeros_like(names), names, names}, names};
    equal.run();
    const at::Tensor seen = equal.out.narrow(3, 0, kPositions), mask = seen.gt(0).to(at::kDouble);
    const at::Tensor allowed = causal ? at::ones({kPositions, kPositions}, at::kBool).tril()
                                      : at::ones({kPositions, kPositions}, at::kBool);
    const at::Tensor uniform = allowed.to(at::kDouble) / allowed.sum(-1, true);
    EXPECT_TRUE(is_near(seen, uniform * mask / 0.75, kKernelFp32));
    EXPECT_NEAR((mask.sum() / (allowed.sum() * kBatch * kHeads)).item<double>(), 0.75, 0.02);
    for (const auto& [a, b] : {std::pair{mask[0], mask[1]}, std::pair{mask.select(1, 0), mask.select(1, 1)},
                               std::pair{mask.narrow(2, 0, 32), mask.narrow(2, 32, 32)}})
      EXPECT_FALSE(a.equal(b));

    shape.size = 48;
    AttentionCall call = {shape, {draw(48), draw(48), draw(48)}, draw(48)};
    call.run();
    std::vector<at::Tensor> exact;
    for (const at::Tensor& x : call.in) exact.push_back(x.to(at::kDouble).requires_grad_(true));
    const at::Tensor scores =
        (at::matmul(exact[0], exact[1].transpose(-1, -2)) * 0.3)
            .masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor expected = at::matmul(at::softmax(scores, -1) * mask / 0.75, exact[2]);
    (expected * call.up).sum().backward();
    EXPECT_TRUE(is_near(call.out, expected, kKernelFp32)) << causal;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(is_near(call.gradients[i], exact[i].grad(), 5 * kKernelFp32)) << causal << " " << i;
  }
}

TEST_P(EveryInstructionSet, GatedActivationsAgree) {
  at::manual_seed(8);
  for (const auto kind : {kernels::Gate::kSilu, kernels::Gate::kGeluTanh}) {
    const at::Tensor gate = at::linspace(-40, 40, 333).requires_grad_(true), dy = at::randn({333});
    const at::Tensor up = at::randn({333}).requires_grad_(true);
    const at::Tensor y = at::empty({333}), dgate = at::empty({333}), dup = at::empty({333});
    kernels::gated_forward(kind, 333, data(gate), data(up), data(y));
    kernels::gated_backward(kind, 333, data(gate), data(up), data(dy), data(dgate), data(dup));
    const at::Tensor exact = gate.to(at::kDouble);
    const at::Tensor expected =
        (kind == kernels::Gate::kSilu ? at::silu(exact) : at::gelu(exact, "tanh")) * up;
    (expected * dy).sum().backward();
    EXPECT_TRUE(is_near(y, expected, kKernelFp32));
    EXPECT_TRUE(is_near(dgate, gate.grad(), kKernelFp32));
    EXPECT_TRUE(is_near(dup, up.grad(), kKernelFp32));
  }
}

// A dropout mask must be the same on every machine and in every release.
TEST_P(EveryInstructionSet, BernoulliIsWhatItWas) {
  const at::Tensor values = at::full({20001}, 7, at::kByte);
  kernels::bernoulli(20000, 42, 0.75, values.mutable_data_ptr<uint8_t>());
  EXPECT_EQ(values[20000].item<int64_t>(), 7);
  const at::Tensor drawn = values.narrow(0, 0, 20000).to(at::kLong);
  EXPECT_EQ(drawn.sum().item<int64_t>(), 15062);
  EXPECT_EQ((drawn * at::arange(20000)).sum().item<int64_t>(), 150482625);
  const at::Tensor other = at::empty({20000}, at::kByte);
  kernels::bernoulli(20000, 43, 0.75, other.mutable_data_ptr<uint8_t>());
  EXPECT_NEAR(other.eq(values.narrow(0, 0, 20000)).to(at::kDouble).mean().item<double>(), 0.625, 0.02);
  for (const double certain : {0.0, 1.0}) {
    kernels::bernoulli(100, 1, certain, other.mutable_data_ptr<uint8_t>());
    EXPECT_TRUE(other.narrow(0, 0, 100).eq(certain).all().item<bool>());
  }
}

TEST_P(EveryInstructionSet, DropoutAgrees) {
  const at::Tensor x = at::randn({333}), residual = at::randn({333}), y = at::empty({333}),
                   mask = at::empty({333}, at::kByte).bernoulli_(0.5);
  kernels::dropout<float>(333, nullptr, data(x), mask.const_data_ptr<uint8_t>(), 2, data(y));
  EXPECT_TRUE(y.equal(x * mask * 2));
  kernels::dropout<float>(333, data(residual), data(x), mask.const_data_ptr<uint8_t>(), 2, data(y));
  EXPECT_TRUE(y.equal(residual + x * mask * 2));
}

TEST_P(EveryInstructionSet, ATurnAndTheTurnBackAreNone) {
  const at::Tensor x = at::randn({2, 3, 2, 72}), angles = at::randn({2, 3, 36}), y = at::empty_like(x),
                   c = angles.cos(), s = angles.sin();
  kernels::rotate({2, 3, 2, 72, false}, data(x), data(c), data(s), false, data(y));
  EXPECT_FALSE(is_near(y, x, 0.1));
  kernels::rotate({2, 3, 2, 72, false}, data(y), data(c), data(s), true, data(y));
  EXPECT_TRUE(is_near(y, x, kKernelFp32));
}

TEST_P(EveryInstructionSet, TransposeAgrees) {
  const at::Tensor x = at::randn({147, 81});
  EXPECT_TRUE(kernels::packed(x.t()).equal(x.t()));
}

INSTANTIATE_TEST_SUITE_P(All, EveryInstructionSet,
                         testing::Values(kernels::InstructionSet::kPortable, kernels::InstructionSet::kAvx2,
                                         kernels::InstructionSet::kAvx512));

}  // namespace

}  // namespace weft::test
