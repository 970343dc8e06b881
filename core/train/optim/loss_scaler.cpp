#include "optim/loss_scaler.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft::optim {

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options), scale_(options.initial_scale) {
  const auto require = [](bool right, const char* name, double value, const char* wanted) {
    if (!right) fail(WEFT_INVALID_ARGUMENT, "loss scaling: {} is {}, must be {}", name, value, wanted);
  };
  const LossScalerOptions& o = options_;
  require(o.min_scale > 0 && std::isfinite(o.min_scale), "min_scale", o.min_scale, "positive");
  require(o.max_scale >= o.min_scale && std::isfinite(o.max_scale), "max_scale", o.max_scale,
          "at least min_scale");
  require(o.initial_scale >= o.min_scale && o.initial_scale <= o.max_scale, "initial_scale", o.initial_scale,
          "from min_scale to max_scale");
  require(o.growth_factor > 1 && std::isfinite(o.growth_factor), "growth_factor", o.growth_factor, "above 1");
  require(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor", o.backoff_factor,
          "above 0 and below 1");
  require(o.growth_interval >= 1, "growth_interval", static_cast<double>(o.growth_interval), "at least 1");
  require(o.hysteresis >= 1, "hysteresis", static_cast<double>(o.hysteresis), "at least 1");
}

void LossScaler::update(bool overflow) {
  if (overflow) {
    growth_steps_ = 0;
    if (++overflows_ >= options_.hysteresis) scale_ *= options_.backoff_factor;
  } else if (++growth_steps_ == options_.growth_interval) {
    growth_steps_ = overflows_ = 0;
    scale_ *= options_.growth_factor;
  }
  scale_ = std::clamp(scale_, options_.min_scale, options_.max_scale);
}

nlohmann::json LossScaler::state() const {
  return {{"scale", scale_}, {"growth_steps", growth_steps_}, {"overflows", overflows_}};
}

void LossScaler::restore(const nlohmann::json& state) {
  const auto number = [&](const char* name, double least) {
    const auto found = state.is_object() ? state.find(name) : state.end();
    if (!state.is_object() || found == state.end() || !found->is_number() || !(found->get<double>() >= least))
      fail(WEFT_INVALID_ARGUMENT, "the saved state of loss scaling has no valid \"{}\": {}", name,
           state.dump());
    return found->get<double>();
  };
  const double scale = number("scale", options_.min_scale);
  const double growth_steps = number("growth_steps", 0), overflows = number("overflows", 0);
  scale_ = std::clamp(scale, options_.min_scale, options_.max_scale);
  growth_steps_ = static_cast<int64_t>(growth_steps);
  overflows_ = static_cast<int64_t>(overflows);
}

}  // namespace weft::optim
