// Whether an update is made and by which factor gradients are multiplied: unscaling, clipping, and the
// dynamic loss scale. The same arithmetic as the host's, so that a device can decide without waiting for it.
#pragma once

#include <cmath>
#include <cstdint>

#include "formula/formula.hpp"

namespace weft::kernels {

struct LossScaleOptions {
  double min_scale, max_scale, growth_factor, backoff_factor;
  int64_t growth_interval, hysteresis;
};
// `growth_steps` counts updates and `overflows` overflows since the scale last grew.
struct LossScale {
  double scale;
  int64_t growth_steps, overflows;
};

WEFT_FORMULA void update_loss_scale(LossScale& state, const LossScaleOptions& options, bool overflow) {
  if (overflow) {
    state.growth_steps = 0;
    if (++state.overflows >= options.hysteresis) state.scale *= options.backoff_factor;
  } else if (++state.growth_steps == options.growth_interval) {
    state.growth_steps = state.overflows = 0;
    state.scale *= options.growth_factor;
  }
  if (state.scale < options.min_scale) state.scale = options.min_scale;
  if (state.scale > options.max_scale) state.scale = options.max_scale;
}

// Whose sums a norm is made of: |g|, g^2, or the largest |g|.
enum class NormType : int32_t { kOne, kTwo, kInfinity };

struct Decision {
  double norm;      // of the unscaled gradients, before clipping
  float factor;     // of every gradient
  int32_t skipped;  // 1: overflow, nothing changes
};

// `part`: the parts of the norm of all ranks, combined. `max_norm`: 0 does not clip. `clip`: a factor of an
// earlier clipping. `scale` is null without loss scaling.
WEFT_FORMULA Decision decide(NormType type, double part, double max_norm, double clip,
                             const LossScale* scale) {
  const double by = scale != nullptr ? scale->scale : 1;
  const double scaled = type == NormType::kTwo ? sqrt(part) : part;
  const double norm = scaled / by, most = max_norm / (norm + 1e-6);
  const bool finite = scaled - scaled == 0;  // false for infinity and NaN
  if (max_norm > 0) clip *= most < 1 ? most : 1;
  return {norm, static_cast<float>(clip / by), scale != nullptr && !finite};
}

}  // namespace weft::kernels
