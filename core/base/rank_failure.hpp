// Messages that name the rank that failed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

// Returns "rank 1 failed: TEXT". Returns `text` unchanged if it already begins like this, because then `rank`
// only repeats the failure of another rank.
std::string failure_of_rank(int rank, std::string_view text);

// Returns 1 for "rank 1 failed: TEXT", and nothing for another form.
std::optional<int> culprit_of(std::string_view text);

// Returns the TEXT of this form, or `text` itself if it has another form.
std::string_view without_culprit(std::string_view text);

}  // namespace weft
