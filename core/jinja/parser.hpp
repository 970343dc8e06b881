#pragma once

#include <string_view>

#include "jinja/syntax.hpp"

namespace weft::jinja {

// Throws INVALID_ARGUMENT that names the line for what is no template, and UNIMPLEMENTED for tags that Weft
// does not know.
Body parse(std::string_view source);

}  // namespace weft::jinja
