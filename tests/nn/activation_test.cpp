#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

at::Tensor values(const char* name) {
  return nn::activation(name)(at::linspace(-6, 6, 101, at::kDouble));
}

TEST(Activation, RefusesUnknownNamesWithTheNearest) {
  EXPECT_ERROR(nn::activation("gelu_nwe"), WEFT_INVALID_ARGUMENT, "gelu_nwe", "did you mean \"gelu_new\"?",
               "relu");
}

TEST(Activation, GeluNewIsTheFormulaWithTanh) {
  const at::Tensor x = at::linspace(-6, 6, 101, at::kDouble);
  const at::Tensor formula = 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
  EXPECT_TRUE(is_near(values("gelu_new"), formula, kKernelFp64));
  EXPECT_FALSE(is_near(values("gelu"), formula, 1e-5));  // "gelu" is the exact one
}

TEST(Activation, NamesOfOneFunctionAgree) {
  for (const char* name : {"gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"}) {
    EXPECT_TRUE(values(name).equal(values("gelu_new"))) << name;
  }
  EXPECT_TRUE(values("swish").equal(values("silu")));
  EXPECT_TRUE(values("gelu_python").equal(values("gelu")));
}

TEST(Gated, IsTheActivationTimesTheOther) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const char* name : {"silu", "gelu_new"}) {
      const at::Tensor gate = at::linspace(-6, 6, 50, dtype).view({2, 25}), up = at::randn({2, 25}, dtype);
      const at::Tensor plain = nn::activation(name)(gate) * up;
      EXPECT_TRUE(is_near(nn::Activation(name)(gate, up), plain, kKernelFp32)) << name << " " << dtype;
    }
  }
}

}  // namespace

}  // namespace weft::test
