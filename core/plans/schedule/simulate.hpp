// How long a schedule takes under given costs, and how many activations it keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft::pipeline {

// The time that one micro-batch takes at one virtual stage, in any unit.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double of(Kind kind) const;  // a backward takes as long as its halves
  bool operator==(const StageCosts& other) const = default;
};

struct Costs {
  std::vector<StageCosts> virtual_stages;
  double transfer = 0;  // from one stage to another; stages work meanwhile
  static Costs equal(uint32_t virtual_stages, StageCosts each = {}, double transfer = 0);
  bool operator==(const Costs& other) const = default;
};

struct Interval {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

// What one stage does from its first operation to its last.
struct StageTimes {
  Interval span;
  double busy = 0;
  double idle() const { return span.length() - busy; }  // inside its span
  std::vector<Interval> operations = {};                // parallel to Schedule::operations
};

struct Simulation {
  std::vector<StageTimes> stages;
  double makespan = 0;  // the end of the last operation; the first one begins at 0
  // The part of all stages' time until the makespan in which they do nothing.
  double bubble() const;
};

// Each stage runs its operations in order and begins each one as soon as it has what it needs. Throws
// INVALID_ARGUMENT if the costs do not fit, an operation is out of range, or stages wait for each other.
Simulation simulate(const Schedule& schedule, const Costs& costs);

// Returns the largest number of activations that a stage keeps at once. One is what a forward of one chunk
// keeps for one micro-batch until its backward, or its weight gradient, is done.
uint32_t peak_live(const Schedule& schedule, uint32_t stage);
// Returns the largest sum of their sizes that a stage keeps at once. Sizes are by chunk: `sizes` until the
// backward or the input gradient, `between_halves` from there to the weight gradient.
int64_t peak_live(const Schedule& schedule, uint32_t stage, const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& between_halves);

// Throws INVALID_ARGUMENT unless there is a cost from 0 to 1e30 for each virtual stage.
void check(const Costs& costs, uint32_t virtual_stages);

}  // namespace weft::pipeline
