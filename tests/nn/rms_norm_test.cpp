#include "weft/nn/rms_norm.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cpu/dispatch.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

void bind(at::Tensor& parameter, const at::Tensor& value) {
  parameter.unsafeGetTensorImpl()->shallow_copy_from(value.variable_data().getIntrusivePtr());
  parameter.set_requires_grad(true);
}

at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x / (x.square().mean(-1, true) + epsilon).sqrt() * weight;
}

TEST(RmsNorm, IsTheFormulaInFp64) {
  nn::RmsNorm norm(7, 1e-3, at::kDouble);
  at::manual_seed(2);
  bind(norm.weight, at::randn({7}, at::kDouble));
  const at::Tensor x = at::randn({2, 3, 7}, at::kDouble) * 4 + 1;
  EXPECT_TRUE(is_near(norm(x), formula(x, norm.weight, 1e-3), kKernelFp64));
  EXPECT_EQ(norm.kind(), "RMSNorm");
}

// Covers sizes around the kernel's 16 lanes, 64 columns and 64 rows, with every instruction set.
TEST(RmsNorm, AgreesWithTheFormulaAtEverySize) {
  using kernels::InstructionSet;
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > kernels::best_instruction_set()) continue;
    kernels::instruction_set() = set;
    for (int64_t rows : {1, 63, 65, 200}) {
      for (int64_t channels : {1, 15, 16, 33, 64, 150}) {
        at::manual_seed(rows * 1000 + channels);
        nn::RmsNorm norm(channels, 1e-5, at::kFloat);
        bind(norm.weight, at::randn({channels}));
        const at::Tensor x = at::randn({rows, channels}).requires_grad_(true), up = at::randn(x.sizes());
        const at::Tensor exact = x.detach().to(at::kDouble).requires_grad_(true),
                         weight = norm.weight.detach().to(at::kDouble).requires_grad_(true);
        const at::Tensor found = norm(x), expected = formula(exact, weight, 1e-5);
        (found * up).sum().backward();
        (expected * up).sum().backward();
        EXPECT_TRUE(is_near(found, expected, kKernelFp32)) << rows << " " << channels;
        EXPECT_TRUE(is_near(norm.weight.grad(), weight.grad(), 5 * kKernelFp32)) << rows << " " << channels;
        // With one channel the gradient nearly cancels.
        const double scale = channels == 1 ? up.abs().max().item<double>() : 1;
        EXPECT_LE((x.grad() - exact.grad()).abs().max().item<double>(),
                  5 * kKernelFp32 * std::max(scale, exact.grad().abs().max().item<double>()))
            << rows << " " << channels;
      }
    }
  }
  kernels::instruction_set() = kernels::best_instruction_set();
}

// Both forms round before they multiply by the weight. Sums may round in either direction.
TEST(RmsNorm, NormalisesHalfPrecisionInFp32) {
  for (const auto& [type, rounding] :
       {std::pair(at::kBFloat16, kRoundingBf16), std::pair(at::kHalf, kRoundingFp16)})
    for (const int64_t channels : {5, 48}) {
      nn::RmsNorm norm(channels, 1e-6, type);
      at::manual_seed(4);
      bind(norm.weight, at::randn({channels}).to(type));
      const at::Tensor x = (at::randn({9, channels}) * 100).to(type).requires_grad_(true),
                       exact = x.detach().to(at::kFloat).requires_grad_(true),
                       weight = norm.weight.detach().to(at::kFloat).requires_grad_(true);
      const at::Tensor unit = formula(exact, at::ones({channels}), 1e-6);
      norm.fused = false;
      EXPECT_TRUE(is_near(norm(x), unit.to(type) * norm.weight, rounding)) << type;
      norm.fused = true;
      const at::Tensor y = norm(x);
      EXPECT_TRUE(is_near(y, unit.to(type) * norm.weight, rounding)) << type;
      EXPECT_GT(y.eq(unit.to(type) * norm.weight).to(at::kFloat).mean().item<float>(), 0.98f) << type;
      y.sum().backward();
      (unit * weight).sum().backward();
      EXPECT_TRUE(is_near(x.grad(), exact.grad(), rounding)) << type;
      EXPECT_TRUE(is_near(norm.weight.grad(), weight.grad(), rounding)) << type;
    }
}

TEST(RmsNorm, GivesShapesWithoutMemory) {
  const nn::RmsNorm norm(6, 1e-6, at::kFloat);
  const at::Tensor y = norm(at::empty({2, 6}, at::TensorOptions().device(at::kMeta)));
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{2, 6}));
}

}  // namespace

}  // namespace weft::test
