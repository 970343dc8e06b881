// What one rank makes of a small model, which several ranks must make, too.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "contract/checks.hpp"
#include "contract/small_model.hpp"
#include "contract/tensors.hpp"
#include "weft/plan.hpp"
#include "weft/world.hpp"

namespace weft::contract {

constexpr const char* kReferencePrecision = "fp64";

// Opens the model anew, in this precision.
using OpenModel = std::function<Model()>;

// The results of two updates, of which the second sees what the first has made of values that begin at 0.
struct Reference {
  struct Step {
    double loss = 0;
    Tensors gradients;
  };
  Sample sample;
  std::vector<Step> steps;
  double evaluated = 0;
  Tensors values;
};
// Without a strategy, or, with `options`, under the default one.
Reference make_reference(const OpenModel& open, const Sample& sample,
                         const nlohmann::json& options = nlohmann::json::object());

// How several ranks share a step.
struct Split {
  nlohmann::json options = nlohmann::json::object();  // of the default strategy
  int64_t accumulate = 1;
  std::string recompute = "off";
};

// Trains the model on these ranks and compares. Each data-parallel rank has its part of the samples.
// Collective.
void compare_with_one_rank(const World& world, const OpenModel& open, const Split& split,
                           const Reference& reference, Findings& findings);

// A way to split a model across ranks.
struct Layout {
  std::string title;
  int ranks = 2;
  nlohmann::json options;  // of the strategy
  plan::ParallelSizes sizes;
};

// Returns the layouts in which a policy can split a model: tensor sizes 2 and 4, and each sequence mode.
std::vector<Layout> make_layouts();

}  // namespace weft::contract
