#include "tokenizer/regex_reader.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

void RegexReader::refuse(std::string_view what) const {
  fail(WEFT_UNIMPLEMENTED, "{}: the regular expression \"{}\" uses {}, which Weft does not have", source_,
       printable(text_), what);
}
void RegexReader::wrong(std::string_view what) const {
  fail(WEFT_DATA_LOSS, "{}: the regular expression \"{}\" has {}", source_, printable(text_), what);
}

bool RegexReader::skip(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

char32_t RegexReader::next() {
  if (at_end()) wrong("an end where more must follow");
  return next_code_point(text_, at_);
}

std::optional<uint32_t> RegexReader::digits() {
  std::optional<uint32_t> value;
  while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') {
    value = value.value_or(0) * 10 + static_cast<uint32_t>(text_[at_++] - '0');
    if (*value > kLargestNumber) wrong("a number above 1000");
  }
  return value;
}

std::string_view RegexReader::name() {
  const size_t end = text_.find(text_[at_ - 1] == '<' ? '>' : '\'', at_);
  const std::string_view name = text_.substr(at_, end - at_);
  if (end == std::string_view::npos || name.find(')') != std::string_view::npos)
    wrong("a name without an end");
  at_ = end + 1;
  return name;
}

CodePointSet RegexReader::bracket(int depth) {
  if (depth > kMostGroups) wrong(fmt::format("classes in classes, more than {} deep", kMostGroups));
  CodePointSet set;
  const bool negated = skip("^");
  if (skip("]")) wrong("an empty class");
  while (!skip("]")) {
    if (skip("[:")) refuse("a bracket of POSIX ([:...:])");
    if (skip("&&")) refuse("an intersection of classes (&&)");
    if (skip("[")) {
      set.add(bracket(depth + 1));
      continue;
    }
    const std::optional<char32_t> first = skip("\\") ? escape(set) : std::optional(next());
    if (!first) continue;
    const bool is_range = text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]");
    if (!is_range) {
      set.add_range(*first, *first);
      continue;
    }
    ++at_;
    if (text_.substr(at_).starts_with("[")) refuse("a range of classes");
    const std::optional<char32_t> last = skip("\\") ? escape(set) : std::optional(next());
    if (!last || *last < *first) wrong("a range that ends before it begins");
    set.add_range(*first, *last);
  }
  if (negated) set.negate();
  return set;
}

std::optional<char32_t> RegexReader::escape(CodePointSet& set) {
  const char32_t letter = next();
  switch (letter) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'x':
    case 'u':
      return number(letter);
    case 's':
    case 'S':
      set.add_white_space(letter == 'S');
      return std::nullopt;
    case 'w':
    case 'W':
      set.add_word(letter == 'W');
      return std::nullopt;
    case 'd':
    case 'D':
      set.add_categories(category_bit(Category::kNd), letter == 'D');
      return std::nullopt;
    case 'p':
    case 'P':
      property(letter == 'P', set);
      return std::nullopt;
    default:
      break;
  }
  if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z')
    refuse(fmt::format("\"\\{}\"", static_cast<char>(letter)));
  return letter >= '0' && letter <= '7' ? octal(letter) : letter;
}

char32_t RegexReader::octal(char32_t first) {
  char32_t value = first - '0';
  for (int left = 2; left > 0 && !at_end() && text_[at_] >= '0' && text_[at_] <= '7'; --left)
    value = value * 8 + static_cast<char32_t>(text_[at_++] - '0');
  if (value >= 0x80) refuse("an octal number above 177");  // a byte, and no code point
  return value;
}

char32_t RegexReader::number(char32_t letter) {
  const bool braced = letter == 'x' && skip("{");
  const size_t most = braced ? 8 : letter == 'x' ? 2 : 4;
  char32_t value = 0;
  size_t digits = 0;
  for (; digits < most && !at_end(); ++digits, ++at_) {
    const char digit = text_[at_];
    const char low = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9')
      value = value * 16 + static_cast<char32_t>(digit - '0');
    else if (low >= 'a' && low <= 'f')
      value = value * 16 + static_cast<char32_t>(low - 'a' + 10);
    else
      break;
  }
  if (digits == 0 || value > 0x10FFFF || (braced && !skip("}"))) wrong("a wrong number of a code point");
  return value;
}

void RegexReader::property(bool negated, CodePointSet& set) {
  const size_t end = text_.find('}', at_);
  if (!skip("{") || end == std::string_view::npos) wrong("a \"\\p\" without {...}");
  if (skip("^")) negated = !negated;
  const std::string_view name = text_.substr(at_, end - at_);
  at_ = end + 1;
  const uint32_t categories = categories_of(name);
  if (categories == 0) refuse(fmt::format("the property \"{}\"", printable(name, 40)));
  set.add_categories(categories, negated);
}

}  // namespace weft::tokenizer
