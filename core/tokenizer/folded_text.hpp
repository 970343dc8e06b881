// Text in a form in which a token equals the part of a text that it comes from, whatever the tokenizer's
// normalizer does to case, accents and forms of characters.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft::tokenizer {

// One of the code points that a character becomes: decomposed (NFKD) and in lower case.
struct FoldedUnit {
  // Normalizers remove marks and controls, so that tokens may lack them.
  enum class Kind { kText, kSpace, kMark, kControl };
  char32_t point = 0;         // of a space always U+0020
  size_t begin = 0, end = 0;  // the bytes of the character
  Kind kind = Kind::kText;

  bool may_be_missing() const { return kind == Kind::kMark || kind == Kind::kControl; }
};

// Returns the units of a text. "▁", which spells a space in vocabularies, counts as one. Bytes that are not
// UTF-8 become U+FFFD, as in Tokenizer::encode().
std::vector<FoldedUnit> folded(std::string_view text);

}  // namespace weft::tokenizer
