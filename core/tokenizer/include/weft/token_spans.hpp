// Which bytes of a text its tokens stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "weft/tokenizer.hpp"

namespace weft {

// The bytes [begin, end) of a text.
struct TokenSpan {
  size_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

// Finds the bytes that tokens stand for. Works with every tokenizer, because it needs no positions from it:
// it finds the text of each token in the text that was encoded, whatever case, accents and spaces the
// tokenizer changed. Copies share what they know of the tokens. All functions may be called from several
// threads at once.
class TokenSpans {
 public:
  explicit TokenSpans(const Tokenizer& tokenizer);

  // The tokens of a text.
  struct Encoded {
    std::vector<int64_t> ids;
    std::vector<TokenSpan> spans;  // of each id, in ascending order
  };
  // Returns the ids that Tokenizer::encode() returns without special tokens, and the span of each. A span has
  // whole characters, and no white space around them unless the token is white space. Tokens that are parts
  // of a character have the span of all of it. Unknown tokens have the text between their neighbours; several
  // in a row share it, unless it has as many characters as there are tokens. A token without text has an
  // empty span. Throws like Tokenizer::encode().
  Encoded encode(std::string_view text) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace weft
