#pragma once

#include <string_view>

#include "jinja/statements.hpp"

namespace weft::jinja {

struct Program {
  Body body;
  bool marks_generation = false;  // whether it has a {% generation %} block
};

// Throws INVALID_ARGUMENT that names the line for what is no template, and UNIMPLEMENTED for tags that Weft
// does not know.
Program parse(std::string_view source);

}  // namespace weft::jinja
