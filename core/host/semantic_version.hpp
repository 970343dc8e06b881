// Versions of plugins, by Semantic Versioning 2.0.
#pragma once

#include <compare>
#include <string_view>

namespace weft::host {

// Returns true for a version such as "1.2.3", "1.2.3-rc.1" or "1.2.3+build".
bool is_version(std::string_view text);

// Compares two versions: 0.9.0 < 0.10.0, and 1.0.0-rc.1 < 1.0.0. Ignores what follows `+`.
std::strong_ordering compare_versions(std::string_view a, std::string_view b);

}  // namespace weft::host
