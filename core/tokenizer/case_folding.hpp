// Which texts are equal up to case: full case folding of Unicode 16.0, of which simple folding is a part.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::tokenizer {

// Returns the code points whose folding is that of `point`, with itself: "sSſ" for "s", "ßẞ" for "ß".
// Returns nothing if there is no other.
std::u32string_view case_variants(char32_t point);

// A code point that folds to two or three: "ß" to "ss", "ﬃ" to "ffi".
struct LongFold {
  char32_t point = 0;
  std::u32string folded;
};
const std::vector<LongFold>& long_folds();  // in the order of the points

}  // namespace weft::tokenizer
