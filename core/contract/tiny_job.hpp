// Trains the tiny model under a strategy.
#pragma once

#include <memory>
#include <string>

#include "contract/checks.hpp"
#include "contract/tensors.hpp"
#include "contract/tiny_model.hpp"
#include "opening/model_state.hpp"
#include "weft/booster.hpp"

namespace weft::contract {

constexpr const char* kLayers = "layers compute with the published values";
constexpr const char* kBegins = "values begin as on one rank";

// How a job trains.
struct Run {
  std::string strategy = "none", options = "{}", precision = "fp64";
  int64_t accumulate = 1;
  std::string recompute = "off";
  std::string device = "cpu";
};

struct Tolerances {
  double values, gradients;
};
Tolerances tolerances(const std::string& precision);

struct TinyJob {
  std::shared_ptr<TinyModel> model;
  Booster booster;
  Job job;
  Bindings& bindings() { return job.model.shared().bindings(); }
  Batch batch(int64_t step) { return own_part(tiny_batch(step), booster.data_rank(), booster.data_size()); }
};

// Boosts with SGD with momentum, without checks of the host: the suites compare by themselves, and more
// closely.
TinyJob boost(const World& world, const Run& run);

// Compares the values with which layers computed since the last call.
std::string seen_difference(TinyModel& model, const Tensors& expected, double tolerance);

// Writes into the published values as an update does, and expects them there and in the layers. Puts the old
// ones, `initial`, back.
void check_written(TinyJob& tiny, const Tensors& initial, const Tolerances& allowed, Findings& findings);

// Sets the gradients to zero as the end of a step does, step from 0, and expects zeros in place of
// `gradients`.
void check_zeroed(TinyJob& tiny, const Tensors& gradients, int64_t step, Findings& findings);

}  // namespace weft::contract
