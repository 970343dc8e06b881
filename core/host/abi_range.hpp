// Which minors of the ABI two sides have in common.
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

// What this build of Weft speaks.
constexpr AbiRange kHostAbi = {WEFT_ABI_MAJOR, WEFT_ABI_MINOR, WEFT_ABI_MINOR};

// The newest minor that both speak. While the major is 0 the newest minors must be equal: a layout may have
// changed. Throws LoadError (ABI_MAJOR, ABI_MINOR) with both sides' values.
uint32_t agree(const AbiRange& host, const AbiRange& plugin);

std::string to_text(const AbiRange& range);  // "1.2 to 1.4", "0.1"

}  // namespace weft::host
