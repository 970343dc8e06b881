// Ranges of ABI versions, and the version that host and plugin agree on.
#pragma once

#include <weft/abi_version.h>

#include <cstdint>
#include <string>

namespace weft::host {

struct AbiRange {
  uint32_t major = 0;
  uint32_t minor_min = 0;
  uint32_t minor = 0;  // the newest
};

// The versions that this build of Weft supports.
constexpr AbiRange kHostAbi = {WEFT_ABI_MAJOR, WEFT_ABI_MINOR_OLDEST, WEFT_ABI_MINOR};

// Returns the newest minor version that both support. Throws LoadError (ABI_MAJOR, ABI_MINOR) with both
// ranges.
uint32_t agree(const AbiRange& host, const AbiRange& plugin);

std::string to_text(const AbiRange& range);  // "1.2 to 1.4", "0.1"

}  // namespace weft::host
