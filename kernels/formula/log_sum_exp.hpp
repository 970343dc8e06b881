// Sums of exponentials in pieces, with their largest exponent apart so that nothing overflows.
#pragma once

#include <cmath>

#include "formula/formula.hpp"

namespace weft::kernels {

// The larger of two, or the one that is no number.
template <class T>
WEFT_FORMULA T larger(T one, T other) {
  return one > other || one != one ? one : other;
}

// The sum of exp(x) over some x is `sum` exp(`peak`); {-infinity, 0} over none.
struct ScaledSum {
  float peak, sum;
};

// Milakov, Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867.
WEFT_FORMULA ScaledSum merged(ScaledSum one, ScaledSum other) {
  const float peak = larger(one.peak, other.peak);
  if (peak == -INFINITY) return {peak, 0};
  return {peak, one.sum * expf(one.peak - peak) + other.sum * expf(other.peak - peak)};
}

// How two results of attention over different keys make one: out = one out1 + other out2. Two rows that
// attend to nothing stay 0.
struct MergeWeights {
  float one, other, log_sum_exp;
};

WEFT_FORMULA MergeWeights merge_weights(float one, float other) {
  const float peak = larger(one, other);
  if (peak == -INFINITY) return {0, 0, peak};
  const float first = expf(one - peak), second = expf(other - peak), sum = first + second;
  return {first / sum, second / sum, peak + logf(sum)};
}

}  // namespace weft::kernels
