// The memory of this host, in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// Returns a value of /proc/meminfo by its name, "MemTotal".
std::optional<int64_t> host_memory(const std::string& name);
// Returns how much more this process and others can take: of the host, or of the control group if that has
// less. 0 if the system tells neither.
int64_t available_host_memory();

}  // namespace weft
