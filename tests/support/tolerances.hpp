// The tolerances of all tests. They are relative to the largest absolute value of the expected tensor, so
// that they hold at any scale.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace weft::test {

// Gradients of one strategy or layout compared with another; only the order of summation differs.
inline constexpr double kGradientFp32 = 2e-5;
inline constexpr double kGradientFp64 = 1e-11;
// Results compared with Hugging Face's in fp32, whose own differences between eager mode and fp64 are 3e-6
// and 2e-5.
inline constexpr double kHuggingFaceOutput = 2e-5;
inline constexpr double kHuggingFaceGradient = 1e-4;
// A kernel or layer compared with its plain version on the same input.
inline constexpr double kKernelFp32 = 2e-6;
inline constexpr double kKernelFp64 = 1e-13;
// One rounding to the dtype: half a unit in the last place of the largest value.
inline constexpr double kRoundingBf16 = 1.0 / 256;
inline constexpr double kRoundingFp16 = 1.0 / 2048;

inline double gradient_tolerance(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return kGradientFp64;
    case at::kBFloat16:
      return 4 * kRoundingBf16;
    case at::kHalf:
      return 4 * kRoundingFp16;
    default:
      return kGradientFp32;
  }
}

// Returns max |actual - expected| / max |expected|. Returns infinity for different shapes, for NaN, and if
// only the expected tensor is zero.
inline double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!actual.defined() || !expected.defined() || actual.sizes() != expected.sizes()) return kInfinity;
  if (expected.numel() == 0) return 0;
  const at::Tensor a = actual.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  const double difference = (a - b).abs().max().item<double>();
  if (difference == 0) return 0;
  const double error = difference / b.abs().max().item<double>();
  return error == error ? error : kInfinity;
}

// Succeeds if the relative error is at most `tolerance`: EXPECT_TRUE(is_near(gradient, reference,
// kGradientFp32)) << name;
inline testing::AssertionResult is_near(const at::Tensor& actual, const at::Tensor& expected,
                                        double tolerance) {
  if (!actual.defined()) return testing::AssertionFailure() << "the tensor is undefined";
  if (!expected.defined()) return testing::AssertionFailure() << "the expected tensor is undefined";
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure() << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  const double error = relative_error(actual, expected);
  if (error <= tolerance) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "relative error " << error << ", at most " << tolerance << " allowed";
}

}  // namespace weft::test
