// Finds and replaces parts of a text in time that grows with the sizes alone, also for texts that nobody
// trusts: the time of std::string::find() may grow with the product of the sizes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// Returns where `part` occurs first from `from` on, or npos.
size_t find_part(std::string_view text, std::string_view part, size_t from = 0);
// Replaces every occurrence of `what`, which is not empty.
void replace_all(std::string& text, std::string_view what, std::string_view with);

}  // namespace weft
