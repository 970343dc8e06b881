#include "host/abi_range.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/load_error.hpp"

namespace weft::host {

std::string to_text(const AbiRange& range) {
  if (range.minor_min == range.minor) return fmt::format("{}.{}", range.major, range.minor);
  return fmt::format("{}.{} to {}.{}", range.major, range.minor_min, range.major, range.minor);
}

uint32_t agree(const AbiRange& host, const AbiRange& plugin) {
  if (plugin.major != host.major) {
    throw LoadError(
        Stage::kAbiMajor, WEFT_FAILED_PRECONDITION,
        fmt::format("built for Weft's ABI {}, this Weft speaks {}; {}", to_text(plugin), to_text(host),
                    plugin.major > host.major ? "update Weft, or install an older version of the plugin"
                                              : "install a newer version of the plugin, or rebuild it"));
  }
  const uint32_t low = std::max(host.minor_min, plugin.minor_min);
  const uint32_t high = std::min(host.minor, plugin.minor);
  if (plugin.minor_min > plugin.minor || low > high) {
    throw LoadError(
        Stage::kAbiMinor, WEFT_FAILED_PRECONDITION,
        fmt::format("built for Weft's ABI {}, this Weft speaks {}; {}", to_text(plugin), to_text(host),
                    plugin.minor > host.minor ? "update Weft, or install an older version of the plugin"
                                              : "rebuild the plugin, or install a newer version of it"));
  }
  return high;
}

}  // namespace weft::host
