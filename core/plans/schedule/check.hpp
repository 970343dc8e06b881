// Whether a schedule computes what it must, and comes to an end.
#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace weft::pipeline {

enum class Purpose : uint8_t {
  training,    // each micro-batch goes forward and backward through each chunk exactly once
  evaluation,  // each micro-batch goes forward through each chunk exactly once
};

// Returns what is wrong with a schedule, one sentence for each mistake; nothing if it is right:
// - a stage runs each micro-batch through each of its chunks once: a forward, then in training either a
//   backward, or an input gradient and after it a weight gradient;
// - no stages wait for each other.
std::vector<std::string> problems(const Schedule& schedule, Purpose purpose = Purpose::training);

// Throws INVALID_ARGUMENT with the first problems. `who`: the beginning of the text.
void check(const Schedule& schedule, const std::string& who = "pipeline schedule",
           Purpose purpose = Purpose::training);

// Throws INVALID_ARGUMENT unless the schedule, which is right, sums gradients in the order in which those of
// make_schedule do, and each stage either runs all its backwards whole or all of them in halves. An executor
// needs both.
void check_executable(const Schedule& schedule, const std::string& who);

// Throws INVALID_ARGUMENT unless the sizes are right and all micro-batches and chunks are in range. `replay`
// needs no more.
void check_ranges(const Schedule& schedule);

}  // namespace weft::pipeline
