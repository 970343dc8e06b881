// Reads and sets environment variables; no other code does. In a set-uid process every variable counts as
// unset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// Returns the value, or nothing if the variable is unset or empty.
std::optional<std::string> environment(const char* name);

// Returns the value as a decimal integer. Throws INVALID_ARGUMENT, naming the variable and its value, if it
// is none.
std::optional<int64_t> environment_integer(const char* name);

// Returns true for 1, true, yes and on; false for 0, false, no, off and unset. Throws INVALID_ARGUMENT
// otherwise.
bool environment_flag(const char* name);

// Sets the variable if it is unset or empty. Call it before other threads run that may read variables.
void set_environment_default(const char* name, const char* value);

// Splits the value at colons and leaves out empty parts.
std::vector<std::string> environment_list(const char* name);

}  // namespace weft
