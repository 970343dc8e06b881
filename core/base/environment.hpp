// The one place that reads environment variables. Under set-uid and the like every variable counts as unset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// The value; nothing if the variable is unset or empty.
std::optional<std::string> environment(const char* name);

// As a decimal integer. Throws INVALID_ARGUMENT naming the variable and its value.
std::optional<int64_t> environment_integer(const char* name);

// True for 1, true, yes, on; false for 0, false, no, off and unset. Throws INVALID_ARGUMENT otherwise.
bool environment_flag(const char* name);

// The parts between colons; empty ones are left out.
std::vector<std::string> environment_list(const char* name);

}  // namespace weft
