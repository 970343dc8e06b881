// The norm of all gradients, whether an update is made, and by which factor gradients are multiplied:
// unscaling and clipping. One formula for the host and for a device, which decides without waiting for it.
#pragma once

#include <cmath>

#include "formula/formula.hpp"

namespace weft::kernels {

// The norm of which `part` is the sum of |g|^p, or the largest |g| if p is infinite.
WEFT_FORMULA double norm_of(double part, double p) {
  if (std::isinf(p) || p == 1) return part;
  return p == 2 ? std::sqrt(part) : std::pow(part, 1 / p);
}

// The factor that scales gradients of this norm down to `max_norm`, as torch.nn.utils.clip_grad_norm_.
WEFT_FORMULA double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

struct Decision {
  double norm;     // of the unscaled gradients, before clipping
  double factor;   // of every gradient
  double skipped;  // 1: overflow, nothing changes
};

// `part`: as of norm_of(), over all ranks; infinity if a gradient is not finite. `max_norm`: 0 does not clip.
// `clip`: a factor of an earlier clipping. `loss_scale`: the gradients are multiplied by it. `skips`: an
// overflow skips the update.
WEFT_FORMULA Decision decide(double part, double p, double max_norm, double clip, double loss_scale,
                             bool skips) {
  const double scaled = norm_of(part, p), norm = scaled / loss_scale;
  const bool finite = scaled - scaled == 0;  // false for infinity and NaN
  if (max_norm > 0) clip *= clip_factor(norm, max_norm);
  return {norm, clip / loss_scale, skips && !finite ? 1.0 : 0.0};
}

// What an update multiplies gradients by: `factor`, unless a device has decided.
struct Scaling {
  double factor = 1;
  const Decision* decision = nullptr;  // takes the place of `factor`
};

// Returns the decision that applies. On the device that has it.
WEFT_FORMULA Decision decision_of(const Scaling& scaling) {
  return scaling.decision != nullptr ? *scaling.decision : Decision{0, scaling.factor, 0};
}

}  // namespace weft::kernels
