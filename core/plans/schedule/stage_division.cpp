#include "schedule/stage_division.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.hpp"

namespace weft::pipeline {

uint32_t StageDivision::stage_of_unit(uint32_t unit) const {
  const auto next = std::upper_bound(begins.begin(), begins.end() - 1, unit);
  return static_cast<uint32_t>(next - begins.begin()) - 1;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The best division of the first units into some number of stages, by dynamic programming over the number of
// stages: `costs[n]` is that of the first n units.
class Division {
 public:
  explicit Division(const std::vector<double>& costs) : sums_(costs.size() + 1) {
    for (size_t u = 0; u < costs.size(); ++u) sums_[u + 1] = sums_[u] + costs[u];
  }

  // Returns the begins of the stages that minimise the cost of all, where merge(cost of the earlier stages,
  // cost of a stage) adds a stage. `cost` gets the minimum.
  template <class Merge>
  std::vector<uint32_t> best(uint32_t stages, const Merge& merge, double* cost) const {
    const size_t units = sums_.size() - 1;
    std::vector<double> before(units + 1, kInfinity);
    before[0] = 0;
    std::vector<std::vector<uint32_t>> begins;  // of the last stage, by stages and units
    for (uint32_t stage = 0; stage < stages; ++stage) {
      std::vector<double> with(units + 1, kInfinity);
      std::vector<uint32_t>& begin = begins.emplace_back(units + 1);
      for (size_t end = stage + 1; end <= units; ++end)
        for (size_t from = stage; from < end; ++from)
          if (const double made = merge(before[from], sums_[end] - sums_[from]); made < with[end]) {
            with[end] = made;
            begin[end] = static_cast<uint32_t>(from);
          }
      before = std::move(with);
    }
    *cost = before[units];
    std::vector<uint32_t> result = {static_cast<uint32_t>(units)};
    for (uint32_t stage = stages; stage-- > 0;) result.push_back(begins[stage][result.back()]);
    std::reverse(result.begin(), result.end());
    return result;
  }

 private:
  std::vector<double> sums_;  // of the costs of the first units
};

}  // namespace

StageDivision divide_units(const std::vector<double>& costs, uint32_t virtual_stages) {
  if (virtual_stages == 0 || virtual_stages > costs.size())
    fail(WEFT_INVALID_ARGUMENT, "{} units cannot be divided into {} stages: each needs at least one",
         costs.size(), virtual_stages);
  const Division division(costs);
  double largest = 0, squares = 0;
  division.best(
      virtual_stages, [](double before, double stage) { return std::max(before, stage); }, &largest);
  return {division.best(
      virtual_stages,
      [&](double before, double stage) { return stage > largest ? kInfinity : before + stage * stage; },
      &squares)};
}

StageDivision divide_layers(const std::vector<bool>& is_layer,
                            const std::vector<uint32_t>& layers_per_stage) {
  std::vector<uint32_t> layers;  // their units
  for (uint32_t unit = 0; unit < is_layer.size(); ++unit)
    if (is_layer[unit]) layers.push_back(unit);
  const uint64_t sum = std::accumulate(layers_per_stage.begin(), layers_per_stage.end(), uint64_t{0});
  if (sum != layers.size())
    fail(WEFT_INVALID_ARGUMENT,
         "num_layers_per_stage is [{}], {} layers together, but the model has {}; give each layer to a stage",
         fmt::join(layers_per_stage, ", "), sum, layers.size());
  StageDivision division{{0}};
  uint32_t given = 0;  // layers of the stages so far
  for (size_t stage = 0; stage < layers_per_stage.size(); ++stage) {
    given += layers_per_stage[stage];
    const bool is_last = stage + 1 == layers_per_stage.size();
    const uint32_t behind_last_layer = layers.empty() ? 0 : layers.back() + 1;
    const uint32_t end = is_last                 ? static_cast<uint32_t>(is_layer.size())
                         : given < layers.size() ? layers[given]
                                                 : behind_last_layer;
    if (end == division.begins.back())
      fail(
          WEFT_INVALID_ARGUMENT,
          "num_layers_per_stage is [{}], which leaves stage {} of {} without any unit; only the first and "
          "the last may have no layer, where the model has other units in front of its layers or behind them",
          fmt::join(layers_per_stage, ", "), stage, layers_per_stage.size());
    division.begins.push_back(end);
  }
  return division;
}

}  // namespace weft::pipeline
