// Versions of plugins, by Semantic Versioning 2.0.
#pragma once

#include <compare>
#include <string_view>

namespace weft::host {

// "1.2.3", "1.2.3-rc.1", "1.2.3+build".
bool is_version(std::string_view text);

// 0.10.0 comes after 0.9.0 and 1.0.0 after 1.0.0-rc.1; what follows `+` does not count.
std::strong_ordering compare_versions(std::string_view a, std::string_view b);

}  // namespace weft::host
