// Parses and formats amounts of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Parses "1073741824", "512MiB", "1.5GiB" or "80GB": KiB, MiB, GiB and TiB are powers of 1024; KB, MB, GB and
// TB are powers of 1000. Throws INVALID_ARGUMENT, naming `who`, if it is not a whole number of bytes above 0.
int64_t parse_bytes(std::string_view text, std::string_view who);

// Returns "812 bytes" or "12.3 MiB (12897485 bytes)".
std::string format_bytes(int64_t bytes);

}  // namespace weft
