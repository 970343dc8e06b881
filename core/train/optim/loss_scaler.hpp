// Dynamic loss scaling, so that fp16 gradients neither underflow nor overflow. It follows Colossal-AI's
// DynamicGradScaler; with a hysteresis of 1 it is PyTorch's GradScaler.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace weft::optim {

struct LossScalerOptions {
  double initial_scale = 65536;
  double min_scale = 1;
  double max_scale = 4294967296;  // 2^32
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 1000;  // updates without overflow before the scale grows
  int64_t hysteresis = 2;          // overflows since the scale last grew before it backs off
};

class LossScaler {
 public:
  // Throws INVALID_ARGUMENT naming the option, what it is and what it must be.
  explicit LossScaler(const LossScalerOptions& options);

  double scale() const { return scale_; }
  // Adjusts the scale after an update that was made, or skipped because of an overflow. Every rank passes the
  // same value.
  void update(bool overflow);

  // Return and restore {"scale", "growth_steps", "overflows"}. restore() throws INVALID_ARGUMENT for anything
  // else.
  nlohmann::json state() const;
  void restore(const nlohmann::json& state);

 private:
  LossScalerOptions options_;
  double scale_;
  int64_t growth_steps_ = 0, overflows_ = 0;  // since the scale last grew, or since an overflow
};

}  // namespace weft::optim
