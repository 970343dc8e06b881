// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// "1073741824", "512MiB", "1.5GiB", "80GB" (KiB MiB GiB TiB count in 1024, KB MB GB TB in 1000). Throws
// INVALID_ARGUMENT naming `who`, unless it is a whole number of bytes above 0.
int64_t parse_bytes(std::string_view text, std::string_view who);

// "812 bytes", "12.3 MiB (12897485 bytes)".
std::string format_bytes(int64_t bytes);

}  // namespace weft
