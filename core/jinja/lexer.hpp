// Splits the source of a Jinja template into tokens, as an environment with trim_blocks and lstrip_blocks
// does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::jinja {

struct Token {
  enum class Kind {
    kText,  // what stands outside of tags
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // without quotes and escapes
    kInteger,
    kReal,
    kSymbol,
    kEnd
  };
  Kind kind;
  std::string text;
  size_t line;  // from 1
};

// Throws INVALID_ARGUMENT that names the line for a tag that is not closed or what is no token.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace weft::jinja
