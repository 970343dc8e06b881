// SGD, Adam and AdamW for one element, in fp32, in the order of operations of the fused kernels of ATen that
// the CPU uses.
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

// The options that count_steps reads.
struct StepOptions {
  double lr, beta1, beta2;  // the betas are 0 for SGD
  bool corrects_bias;
};

// What an update of one parameter needs beside the options of its group.
struct StepNumbers {
  float rate;              // lr / (1 - beta1^step)
  float root_correction2;  // sqrt(1 - beta2^step)
  int32_t active;          // 0: the parameter keeps its values in this step
  int32_t first;           // 1 in the first update of the parameter
};

WEFT_FORMULA StepNumbers step_numbers(const StepOptions& options, int64_t step) {
  const double correction1 = options.corrects_bias ? 1 - power(options.beta1, step) : 1;
  const double correction2 = options.corrects_bias ? 1 - power(options.beta2, step) : 1;
  return {static_cast<float>(options.lr / correction1), static_cast<float>(sqrt(correction2)), 1, step == 1};
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

}  // namespace weft::kernels
