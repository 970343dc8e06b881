// Messages that name the rank that failed.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Returns "rank 1 failed: TEXT". Returns `text` unchanged if it already begins like this, because then `rank`
// only repeats the failure of another rank.
std::string failure_of_rank(int rank, std::string_view text);

// Returns the TEXT of "rank 1 failed: TEXT", or `text` itself if it has another form.
std::string_view without_culprit(std::string_view text);

}  // namespace weft
