#include "optim/plateau.hpp"

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/text.hpp"

namespace weft::optim {

using nlohmann::json;

Plateau::Plateau(const Options& options)
    : largest_(options.at("mode").text == "max"),
      relative_(options.at("threshold_mode").text == "rel"),
      factor_(options.at("factor").real),
      threshold_(options.at("threshold").real),
      min_lr_(options.at("min_lr").real),
      eps_(options.at("eps").real),
      patience_(options.at("patience").integer),
      cooldown_(options.at("cooldown").integer),
      state_{(largest_ ? -1 : 1) * std::numeric_limits<double>::infinity()} {
  if (!(factor_ < 1)) fail(WEFT_INVALID_ARGUMENT, "schedule plateau: factor is {}, must be below 1", factor_);
}

double Plateau::rate(double initial) const {
  double rate = initial;
  for (int64_t i = 0; i < state_.reductions; ++i) {
    const double reduced = std::max(rate * factor_, min_lr_);
    if (!(rate - reduced > eps_)) break;
    rate = reduced;
  }
  return rate;
}

bool Plateau::is_better(double metric) const {
  const double sign = largest_ ? 1 : -1;
  const double bound = relative_ ? state_.best * (1 + sign * threshold_) : state_.best + sign * threshold_;
  return largest_ ? metric > bound : metric < bound;
}

void Plateau::observe(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad_steps = 0;
  } else {
    ++state_.bad_steps;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.bad_steps = 0;
  }
  if (state_.bad_steps <= patience_) return;
  ++state_.reductions;
  state_.cooling = cooldown_;
  state_.bad_steps = 0;
}

std::string Plateau::state() const {
  return json({{"best", std::isfinite(state_.best) ? json(state_.best) : json()},
               {"bad_steps", state_.bad_steps},
               {"cooling", state_.cooling},
               {"reductions", state_.reductions}})
      .dump();
}

void Plateau::restore(const std::string& text) {
  try {
    const json saved = parse_json(text, "the state of schedule plateau");
    State state{(largest_ ? -1 : 1) * std::numeric_limits<double>::infinity()};
    if (!saved.at("best").is_null()) state.best = saved.at("best");
    state.bad_steps = saved.at("bad_steps");
    state.cooling = saved.at("cooling");
    state.reductions = saved.at("reductions");
    state_ = state;
  } catch (const json::exception& e) {
    fail(WEFT_INVALID_ARGUMENT, "this is no state of schedule plateau: {}", text_of(e));
  }
}

}  // namespace weft::optim
