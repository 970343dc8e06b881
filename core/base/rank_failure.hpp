// How a message names the rank whose failure it tells of.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// "rank 1 failed: TEXT". Returns `text` as it is if it already begins like this: a rank that only passes on
// what another one failed with is not the culprit.
std::string failure_of_rank(int rank, std::string_view text);

// TEXT of "rank 1 failed: TEXT"; otherwise `text`.
std::string_view without_culprit(std::string_view text);

}  // namespace weft
