// Schedules as text.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"
#include "schedule/simulate.hpp"

namespace weft::pipeline {

// Returns one line for each stage, "F0 F1 B0 B1": the names of its operations (`name_of`) in order.
std::string rows(const Schedule& schedule);

// Reads what `rows` writes; stages may also be separated by ";", and "#" begins a comment. `shape` says
// everything but the operations; if its micro-batches are 0, there are as many as the text has. Throws
// INVALID_ARGUMENT with the row and the word if the text is malformed, and with the problems of the
// schedule if it is no schedule for training (`check`). `who`: the beginning of the text, such as the name of
// an option.
Schedule parse_rows(Schedule shape, std::string_view text, const std::string& who);

// Returns a table for `weft plan --explain`: the operations of each stage, the activations that it keeps and
// how long it works, and the bubble. `title`: the style.
std::string explain(const Schedule& schedule, const Simulation& simulation, std::string_view title);

}  // namespace weft::pipeline
