// Draws schedules.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"
#include "schedule/simulate.hpp"

namespace weft::pipeline {

// Returns an SVG picture: a row for each stage, time to the right, a colour for each kind of operation and
// for waiting, micro-batch numbers where they fit, later chunks paler. `times` come from `simulate`, or are
// measured from 0 on. Equal arguments give equal bytes.
std::string draw_svg(const Schedule& schedule, const Simulation& times, std::string_view title);

}  // namespace weft::pipeline
