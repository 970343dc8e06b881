// Durations of flags and messages.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace weft {

// Converts the seconds of `flag`, rounded up to milliseconds. Throws INVALID_ARGUMENT, naming the flag,
// unless they are more than 0 and at most a year.
std::chrono::milliseconds milliseconds_of(std::string_view flag, double seconds);

// Returns "12.3 s", rounded to tenths of a second, or to milliseconds if it is less than 10 s.
std::string seconds_text(std::chrono::nanoseconds time);

}  // namespace weft
