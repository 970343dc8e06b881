// Finds an order in which all operations of all stages of a schedule can run, or what they wait for if there
// is none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft::pipeline {

// What must be done before an operation can run.
struct Need {
  enum class What : uint8_t { forward, gradient, input_gradient };
  What what = What::forward;
  uint32_t virtual_stage = 0;
  uint32_t micro_batch = 0;
};

// Returns what an operation of `stage` needs of the neighbouring virtual stage, or nothing for the batch and
// the loss.
std::optional<Need> need_of_neighbour(const Schedule& schedule, uint32_t stage, const Operation& operation);
// Returns what it needs of its own virtual stage: a backward its forward, a weight gradient the input
// gradient.
std::optional<Need> need_of_itself(const Schedule& schedule, uint32_t stage, const Operation& operation);

// Visits the operations in an order in which each one comes after all that it needs, and each stage keeps the
// order of its list. Returns how many operations of each stage it visited: fewer than the list has if stages
// wait for each other. Takes time in proportion to the number of operations. All micro-batches and chunks
// must be in range, see `check`.
std::vector<size_t> replay(const Schedule& schedule,
                           const std::function<void(uint32_t stage, size_t index)>& visit);

// Returns for whom the stages wait that a replay left after `visited` operations: the circle in which they
// wait for each other, or the operation that is missing. Empty if the replay visited all operations.
std::string describe_deadlock(const Schedule& schedule, const std::vector<size_t>& visited);

}  // namespace weft::pipeline
