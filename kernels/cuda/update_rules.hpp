// Updates of many ranges of parameters in one launch: each reads gradient, value and states once, unscales
// and clips the gradient on the way, and writes value, states and the model's half-precision copy. Gradients
// stay as they are. What depends on the norm is decided on the device: the host need not wait.
//
// A step: norm_parts and norm_total (gradient_norm.hpp), then the all-reduce of what they found, decide_step,
// and a rule for each group of parameters.
#pragma once

#include <cstdint>

#include "cuda/chunks.hpp"
#include "cuda/stream.hpp"
#include "formula/decision.hpp"
#include "formula/update_rules.hpp"

namespace weft::kernels::cuda {

// decide() on the device. Addresses are in device memory.
struct StepDecision {
  const double* norm_part;  // combined over the ranks
  double norm_type, max_norm, clip, loss_scale;
  bool skips;
  Decision* decision;  // the result
};
void decide_step(const StepDecision& work, Stream stream);

// The memory of a range. G: float, c10::BFloat16 or c10::Half, of the gradient. C: c10::BFloat16 or
// c10::Half, of the copy, which may be null. `momentum` may be null without momentum.
template <class G, class C>
struct AdamRange {
  float* value;
  float* average;
  float* square;
  const G* gradient;
  C* copy;
};
template <class G, class C>
struct SgdRange {
  float* value;
  float* momentum;
  const G* gradient;
  C* copy;
};

// Tables in device memory. `num_chunks` 0 does nothing.
template <class Range>
struct RangeTable {
  const Range* ranges;
  const Chunk* chunks;
  int64_t num_chunks;
};

// For G and C: (float, BFloat16), (float, Half), (BFloat16, BFloat16) and (Half, Half).
template <class G, class C>
void adam(const RangeTable<AdamRange<G, C>>& table, const AdamFactors& factors, const StepNumbers& step,
          const Scaling& scaling, Stream stream);
template <class G, class C>
void sgd(const RangeTable<SgdRange<G, C>>& table, const SgdFactors& factors, const StepNumbers& step,
         const Scaling& scaling, Stream stream);

}  // namespace weft::kernels::cuda
