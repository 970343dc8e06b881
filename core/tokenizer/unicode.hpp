// Properties of code points (Unicode character database). Hugging Face's tokenizers mix versions of Unicode;
// each function names the one that it follows. unicode_tables.py writes the tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::tokenizer {

// General categories, in the order of the bits of a set of them.
enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,  // letters
  kMn,
  kMc,
  kMe,  // marks
  kNd,
  kNl,
  kNo,  // numbers
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,  // punctuation
  kSm,
  kSc,
  kSk,
  kSo,  // symbols
  kZs,
  kZl,
  kZp,  // separators
  kCc,
  kCf,
  kCs,
  kCo,
  kCn  // others
};
Category category(char32_t point);  // Unicode 16.0

constexpr uint32_t category_bit(Category category) {
  return uint32_t{1} << static_cast<unsigned>(category);
}
constexpr uint32_t kLetters = 0x1F;
constexpr uint32_t kMarks = 0x7 << 5;
constexpr uint32_t kNumbers = 0x7 << 8;
constexpr uint32_t kPunctuation = 0x7F << 11;
constexpr uint32_t kSymbols = 0xF << 18;
constexpr uint32_t kSeparators = 0x7 << 22;
constexpr uint32_t kOthers = 0x1F << 25;
inline bool is_in(char32_t point, uint32_t categories) {
  return (category_bit(category(point)) & categories) != 0;
}

bool is_white_space(char32_t point);  // the property White_Space: \s of regular expressions
// Unicode 16.0: \w of patterns (Oniguruma): Alphabetic, M, Nd, Pc, and the six of Latin-1 that are No.
bool is_word(char32_t point);
// Unicode 16.0: \w of the pre-tokenizer Whitespace: Alphabetic, M, Nd, Pc, Join_Control.
bool is_word_or_joiner(char32_t point);
bool is_number(char32_t point);  // Unicode 17.0: N

// What StripAccents removes (Unicode 9.0: M).
bool is_mark(char32_t point);
// Of the normalizer and the pre-tokenizers of words (Unicode 8.0): Mn; P and the symbols of ASCII; Cc, Cf
// and Co.
bool is_nonspacing_mark(char32_t point);
bool is_punctuation(char32_t point);
bool is_control(char32_t point);

// Returns the categories of a name of regular expressions: "L", "Lu", "Letter", ...; 0 if it is none.
uint32_t categories_of(std::string_view name);
// Returns the smallest code point whose case folding is the same, or the point itself.
char32_t fold_case(char32_t point);

// Returns the lower case of a text, one code point after the other: a sigma at the end of a word is no
// special case (Unicode 17.0).
std::string lower_case(std::string_view text);

}  // namespace weft::tokenizer
