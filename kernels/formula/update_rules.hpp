// Update rules for one element. SGD, Adam and AdamW are in fp32, in the order of operations of the fused
// kernels of ATen that the CPU uses; the others are those of kernels/cpu, in T, float or double. A statement
// stays one: the CPU's compiler may contract it to a fused multiply-add, and nothing across statements.
#pragma once

#include <cmath>
#include <cstdint>

#include "formula/formula.hpp"

namespace weft::kernels {

// beta to the power of `count`, at least 0.
WEFT_FORMULA double power(double beta, int64_t count) {
  double result = 1;
  for (; count > 0; count >>= 1, beta *= beta)
    if (count & 1) result *= beta;
  return result;
}

// The options of the group that determine StepNumbers.
struct StepOptions {
  double lr, beta1, beta2;  // the betas are 0 for SGD
  bool corrects_bias;
};

// What an update needs beside the options of its group: parameters of a launch have made as many updates.
struct StepNumbers {
  float rate;              // lr / (1 - beta1^step)
  float root_correction2;  // sqrt(1 - beta2^step)
  int32_t first;           // 1 in the first update
};

WEFT_FORMULA StepNumbers step_numbers(const StepOptions& options, int64_t step) {
  const double correction1 = options.corrects_bias ? 1 - power(options.beta1, step) : 1;
  const double correction2 = options.corrects_bias ? 1 - power(options.beta2, step) : 1;
  return {static_cast<float>(options.lr / correction1), static_cast<float>(sqrt(correction2)), step == 1};
}

// Kingma, Ba 2015, arXiv:1412.6980; decoupled: Loshchilov, Hutter 2019, arXiv:1711.05101.
struct AdamFactors {
  float beta1, rest1, beta2, rest2, eps;
  float decay;  // of the weight; Adam adds `decay` w to the gradient, AdamW multiplies w by `decay`
  bool decoupled;
};

inline AdamFactors adam_factors(double lr, double beta1, double beta2, double eps, double weight_decay,
                                bool decoupled) {
  return {static_cast<float>(beta1),
          static_cast<float>(1 - beta1),
          static_cast<float>(beta2),
          static_cast<float>(1 - beta2),
          static_cast<float>(eps),
          static_cast<float>(decoupled ? 1 - lr * weight_decay : weight_decay),
          decoupled};
}

// Updates the value w and the moments m and v by the gradient g.
WEFT_FORMULA void adam_element(const AdamFactors& factors, const StepNumbers& step, float g, float& w,
                               float& m, float& v) {
  if (factors.decoupled)
    w = w * factors.decay;
  else
    g = g + factors.decay * w;
  // The interpolation that rounds less for this beta1.
  m = factors.rest1 < 0.5f ? m + factors.rest1 * (g - m) : g - (g - m) * factors.beta1;
  v = v * factors.beta2 + factors.rest2 * g * g;
  w = w - step.rate * m / (sqrtf(v) / step.root_correction2 + factors.eps);
}

struct SgdFactors {
  float momentum, rest, decay;  // rest: 1 - dampening
  bool nesterov;
};

// Updates the value w and the momentum m, which stays unused without momentum.
WEFT_FORMULA void sgd_element(const SgdFactors& factors, const StepNumbers& step, float g, float& w,
                              float& m) {
  g = g + factors.decay * w;
  if (factors.momentum != 0) {
    m = step.first ? g : factors.momentum * m + factors.rest * g;
    g = factors.nesterov ? g + factors.momentum * m : m;
  }
  w = w - step.rate * g;
}

// Chen et al. 2023, arXiv:2302.06675, Algorithm 2. Every rule below multiplies gradients by `scale` first.
struct LionOptions {
  double lr, beta1, beta2, weight_decay, scale;
};

template <class T>
struct LionFactors {
  T lr, keep, beta1, rest1, beta2, rest2;
};

template <class T>
WEFT_FORMULA LionFactors<T> lion_factors(const LionOptions& options) {
  return {static_cast<T>(options.lr),    static_cast<T>(1 - options.lr * options.weight_decay),
          static_cast<T>(options.beta1), static_cast<T>(1 - options.beta1),
          static_cast<T>(options.beta2), static_cast<T>(1 - options.beta2)};
}

// Updates the value w and the momentum m.
template <class T>
WEFT_FORMULA void lion_element(const LionFactors<T>& factors, T g, T& w, T& m) {
  const T direction = factors.beta1 * m + factors.rest1 * g;
  const T sign = static_cast<T>(direction > 0) - static_cast<T>(direction < 0);
  w = factors.keep * w - factors.lr * sign;
  m = factors.beta2 * m + factors.rest2 * g;
}

// You et al. 2017, arXiv:1708.03888, Algorithm 1: v = momentum v + rate (g + weight_decay w), w -= v.
struct LarsOptions {
  double rate, momentum, weight_decay, scale;
};

template <class T>
struct LarsFactors {
  T rate, momentum, decay;
};

template <class T>
WEFT_FORMULA LarsFactors<T> lars_factors(const LarsOptions& options) {
  return {static_cast<T>(options.rate), static_cast<T>(options.momentum),
          static_cast<T>(options.weight_decay)};
}

// `v` is null without momentum.
template <class T>
WEFT_FORMULA void lars_element(const LarsFactors<T>& factors, T g, T& w, T* v) {
  T step = factors.rate * (g + factors.decay * w);
  if (v != nullptr) *v = step = factors.momentum * *v + step;
  w -= step;
}

// You et al. 2020, arXiv:1904.00962, Algorithm 2, with the direction
//   u = (m / correction1) / (sqrt(v / correction2) + eps) + weight_decay w.
struct LambOptions {
  double beta1, beta2, eps, weight_decay, correction1, correction2, scale;
};

template <class T>
struct LambFactors {
  T beta1, rest1, beta2, rest2, first, second, eps, decay;
};

template <class T>
WEFT_FORMULA LambFactors<T> lamb_factors(const LambOptions& options) {
  return {static_cast<T>(options.beta1),
          static_cast<T>(1 - options.beta1),
          static_cast<T>(options.beta2),
          static_cast<T>(1 - options.beta2),
          static_cast<T>(1 / options.correction1),
          static_cast<T>(1 / options.correction2),
          static_cast<T>(options.eps),
          static_cast<T>(options.weight_decay)};
}

template <class T>
WEFT_FORMULA void lamb_moments_element(const LambFactors<T>& factors, T g, T& m, T& v) {
  m = factors.beta1 * m + factors.rest1 * g;
  v = factors.beta2 * v + factors.rest2 * g * g;
}

template <class T>
WEFT_FORMULA T lamb_direction(const LambFactors<T>& factors, T w, T m, T v) {
  return m * factors.first / (std::sqrt(v * factors.second) + factors.eps) + factors.decay * w;
}

// Adafactor (Shazeer, Stern 2018, arXiv:1804.04235) and CAME (Luo et al. 2023, arXiv:2307.02047) follow the
// direction u = row g column, where `row` and `column` are the factors of a row and a column of a matrix.
// `rate` below is a rate times the factor of the row.

template <class T>
WEFT_FORMULA T factored_direction(T rate, T g, T column) {
  return rate * (g * column);
}
template <class T>
WEFT_FORMULA void factored_step_element(T rate, T keep, T g, T column, T& w) {
  w = keep * w - factored_direction(rate, g, column);
}
template <class T>
WEFT_FORMULA void factored_average_element(T rate, T beta, T g, T column, T& m) {
  m = beta * m + factored_direction(rate, g, column);
}
// CAME: the square of how far the direction is from its average.
template <class T>
WEFT_FORMULA T instability(T rate, T g, T column, T m) {
  const T difference = factored_direction(rate, g, column) - m;
  return difference * difference;
}

}  // namespace weft::kernels
