// Which jobs Weft refuses, without ranks and on them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugins/support/parity.hpp"

namespace weft::test {

// Returns the error with which Weft refuses a job because of its options or of the model's plan, or "" if it
// refuses neither. Needs no ranks.
std::string refusal(const Case& job);
// The same, or the error about the mesh that so many ranks would make.
std::string refusal(const Case& job, int ranks);

// Expects that boost() refuses each job on `ranks` ranks with the text beside it.
void expect_refusals(const std::vector<std::pair<Case, std::string>>& refused, int ranks);

}  // namespace weft::test
