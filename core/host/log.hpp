// The log of the process, on stderr: `[rank 1] warning: PLUGIN: text`. WEFT_LOG sets what is shown: debug,
// info (the default), warning, error or off.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::host {

// Throws INVALID_ARGUMENT if WEFT_LOG is not a level.
void check_log_level();

// `level` is WEFT_LOG_*; an unknown one counts as an error. Safe from every thread; never throws.
void log(uint32_t level, std::string_view who, std::string_view text) noexcept;

}  // namespace weft::host
