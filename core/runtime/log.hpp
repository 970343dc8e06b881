// A line of the process's log, which libweft writes (rank in front).
#pragma once

#include <string_view>

#include "weft/host.h"

namespace weft {

void log(uint32_t level, std::string_view text);

}  // namespace weft
