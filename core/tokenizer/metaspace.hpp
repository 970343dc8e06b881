// Spaces as a visible mark ("▁"), which begins words.
#pragma once

#include <string>

#include "tokenizer/json_part.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

struct Metaspace {
  explicit Metaspace(const JsonPart& part)
      : replacement(part.text("replacement")), split(part.flag("split", true)) {
    size_t end = 0;
    if (!replacement.empty()) next_code_point(replacement, end);
    if (replacement.empty() || end != replacement.size()) part.wrong("replacement", "one character");
    scheme = part.text("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never") part.unknown("prepend_scheme", scheme);
    if (!part.flag("add_prefix_space", true)) scheme = "never";
  }
  // Returns whether a text gets the mark in front; `first`: it begins where the whole input begins.
  bool prepends(bool first) const { return scheme == "always" || (scheme == "first" && first); }

  std::string replacement;
  bool split;
  std::string scheme;
};

}  // namespace weft::tokenizer
