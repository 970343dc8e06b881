// The name of this host.
#pragma once

#include <string>

namespace weft {

// Returns the name of this host, or an empty string if it has none.
std::string host_name();

}  // namespace weft
