// How the units of a model are divided into the virtual stages of a pipeline. Needs no libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::pipeline {

// Consecutive units for each virtual stage, at least one.
struct StageDivision {
  std::vector<uint32_t> begins;  // the first unit of each virtual stage and, last, the number of units

  uint32_t virtual_stages() const { return static_cast<uint32_t>(begins.size()) - 1; }
  uint32_t begin(uint32_t virtual_stage) const { return begins[virtual_stage]; }
  uint32_t end(uint32_t virtual_stage) const { return begins[virtual_stage + 1]; }
  // Returns the virtual stage that has a unit.
  uint32_t stage_of_unit(uint32_t unit) const;
  bool operator==(const StageDivision& other) const = default;
};

// Divides units with these costs so that the most expensive virtual stage costs as little as possible and,
// among such divisions, so that the sum of the squared costs is the smallest. Of equal divisions, the last
// virtual stage begins as early as possible, then the one before it. Costs are not negative. Throws
// INVALID_ARGUMENT if there are fewer units than virtual stages.
StageDivision divide_units(const std::vector<double>& costs, uint32_t virtual_stages);

// Divides units so that each virtual stage has the given number of layers. `is_layer` says which units are
// layers. A unit that is none belongs to the stage of the layer before it; those in front of the first layer
// belong to the first virtual stage, and those behind the last layer to the last one. Throws INVALID_ARGUMENT
// naming num_layers_per_stage if the numbers do not add up to those of the model, or a stage has no unit.
StageDivision divide_layers(const std::vector<bool>& is_layer, const std::vector<uint32_t>& layers_per_stage);

}  // namespace weft::pipeline
