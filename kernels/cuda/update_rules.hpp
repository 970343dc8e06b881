// Updates of many ranges of parameters in one launch: each reads gradient, value and states once, unscales
// and clips the gradient on the way, and writes value, states and the model's half-precision copy. Gradients
// stay as they are. What depends on an overflow is decided on the device: the host need not wait.
//
// A step: norm_parts and norm_total (gradient_norm.hpp), then the all-reduce of what they found, decide_step,
// and for each group of parameters count_steps and its rule.
#pragma once

#include <cstdint>

#include "cuda/chunks.hpp"
#include "cuda/stream.hpp"
#include "formula/decision.hpp"
#include "formula/update_rules.hpp"

namespace weft::kernels::cuda {

// All addresses are in device memory.
struct StepDecision {
  NormType norm_type;
  const double* norm_part;  // combined over the ranks; may be null without clipping and loss scaling
  double max_norm;          // 0: no clipping
  double clip;              // a factor of an earlier clipping, or 1
  LossScale* scale;         // is updated; null without loss scaling
  LossScaleOptions scale_options;
  Decision* decision;  // the result
};
void decide_step(const StepDecision& work, Stream stream);

// Counts a step of the parameters of a group and makes the numbers that the rules need.
struct StepCount {
  int32_t parameters;
  const double* touched;  // by parameter: above 0 if it has a gradient on some rank; null: all have
  int64_t* steps;         // by parameter: updates that were made
  StepOptions options;
  const Decision* decision;
  StepNumbers* numbers;  // the result, by parameter
};
void count_steps(const StepCount& work, Stream stream);

// The memory of a range. G: float, c10::BFloat16 or c10::Half, of the gradient. C: c10::BFloat16 or
// c10::Half, of the copy, which may be null. `momentum` may be null without momentum. `parameter`: its index
// in StepNumbers.
template <class G, class C>
struct AdamRange {
  float* value;
  float* average;
  float* square;
  const G* gradient;
  C* copy;
  int32_t parameter;
};
template <class G, class C>
struct SgdRange {
  float* value;
  float* momentum;
  const G* gradient;
  C* copy;
  int32_t parameter;
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
void adam(const RangeTable<AdamRange<G, C>>& table, const AdamFactors& factors, const StepNumbers* numbers,
          const Decision* decision, Stream stream);
template <class G, class C>
void sgd(const RangeTable<SgdRange<G, C>>& table, const SgdFactors& factors, const StepNumbers* numbers,
         const Decision* decision, Stream stream);

}  // namespace weft::kernels::cuda
