// Jobs drawn at random, of all strategies, axes, schedules and modes together, with models of several
// families.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugins/support/parity.hpp"
#include "support/random_layout.hpp"

namespace weft::test {

// The drawn jobs that train, and those that are refused with the reason, by the number of ranks.
struct DrawnCases {
  std::map<int, std::vector<Case>> trained;
  std::map<int, std::vector<std::pair<Case, std::string>>> refused;
};

// Draws layouts until `count` of them are not refused. Those that are must be refused for an option.
DrawnCases draw_cases(uint32_t seed, size_t count, LayoutBounds bounds = {});

}  // namespace weft::test
