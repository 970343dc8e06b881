#include "tokenizer/unicode.hpp"

#include <algorithm>
#include <array>

#include "tokenizer/unicode_data.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace data {

uint32_t Numbers::next() {
  // Letters, capital ones first, digits, '-' and '_', as base64 has them in URLs.
  const auto value_of = [](char digit) -> uint32_t {
    if (digit >= 'a') return static_cast<uint32_t>(digit - 'a' + 26);
    if (digit == '_') return 63;
    if (digit >= 'A') return static_cast<uint32_t>(digit - 'A');
    return digit == '-' ? 62 : static_cast<uint32_t>(digit - '0' + 52);
  };
  uint32_t number = 0;
  for (unsigned shift = 0;; shift += 5) {
    const uint32_t digit = value_of(text_[at_++]);
    number |= (digit & 31) << shift;
    if (digit < 32) return number;
  }
}

int32_t Numbers::next_signed() {
  const uint32_t number = next();
  return number % 2 == 0 ? static_cast<int32_t>(number / 2) : -static_cast<int32_t>(number / 2) - 1;
}

Property::Property(std::string_view runs) : low_(0x20000) {
  size_t begin = 0;
  for (Numbers numbers(runs); !numbers.at_end();) {
    const size_t end = begin + numbers.next();
    const auto value = static_cast<uint8_t>(numbers.next());
    for (size_t point = begin; point < std::min(end, low_.size()); ++point) low_[point] = value;
    if (end > low_.size()) high_.emplace_back(static_cast<char32_t>(end), value);
    begin = end;
  }
}

uint8_t Property::search(char32_t point) const {
  return std::upper_bound(high_.begin(), high_.end(), point,
                          [](char32_t wanted, const auto& run) { return wanted < run.first; })
      ->second;
}

Mapping::Mapping(std::string_view pairs) {
  char32_t point = 0;
  for (Numbers numbers(pairs); !numbers.at_end();) {
    point += numbers.next();
    pairs_.emplace_back(point, point + static_cast<char32_t>(numbers.next_signed()));
  }
}

char32_t Mapping::operator[](char32_t point) const {
  const auto found = std::lower_bound(pairs_.begin(), pairs_.end(), point,
                                      [](const auto& pair, char32_t wanted) { return pair.first < wanted; });
  return found != pairs_.end() && found->first == point ? found->second : point;
}

}  // namespace data

Category category(char32_t point) {
  static const data::Property all(data::kCategories);
  return point <= 0x10FFFF ? static_cast<Category>(all[point]) : Category::kCn;
}

bool is_white_space(char32_t point) {
  if (point < 0x80) return point == ' ' || (point >= '\t' && point <= '\r');
  return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

namespace {

// Alphabetic, M, Nd and Pc. Alphabetic is L, Nl, some of M, and the letters in circles and squares.
bool is_plain_word(char32_t point) {
  constexpr uint32_t kWord = kLetters | kMarks | category_bit(Category::kNd) | category_bit(Category::kNl) |
                             category_bit(Category::kPc);
  const auto between = [&](char32_t first, char32_t last) { return point >= first && point <= last; };
  return is_in(point, kWord) || between(0x24B6, 0x24E9) || between(0x1F130, 0x1F149) ||
         between(0x1F150, 0x1F169) || between(0x1F170, 0x1F189);
}

}  // namespace

bool is_word(char32_t point) {
  return is_plain_word(point) || (point < 0x100 && is_in(point, kNumbers));
}

bool is_word_or_joiner(char32_t point) {
  return is_plain_word(point) || point == 0x200C || point == 0x200D;
}

bool is_number(char32_t point) {
  static const data::Property all(data::kNumbers);
  return all[point] != 0;
}

bool is_mark(char32_t point) {
  static const data::Property all(data::kMarks);
  return all[point] != 0;
}

bool is_nonspacing_mark(char32_t point) {
  static const data::Property all(data::kNonspacingMarks);
  return all[point] != 0;
}

bool is_punctuation(char32_t point) {
  static const data::Property all(data::kPunctuation);
  return all[point] != 0 || (point < 0x80 && is_in(point, kSymbols));
}

bool is_control(char32_t point) {
  static const data::Property all(data::kControls);
  return all[point] != 0;
}

uint32_t categories_of(std::string_view name) {
  // Names of the character database; patterns may write them with other case, spaces, '_' or '-'.
  struct Name {
    std::string_view brief, full;
    uint32_t categories;
  };
  const auto bit = [](Category category) { return category_bit(category); };
  using enum Category;
  static const std::array<Name, 38> names = {{
      {"l", "letter", kLetters},
      {"lc", "casedletter", bit(kLu) | bit(kLl) | bit(kLt)},
      {"lu", "uppercaseletter", bit(kLu)},
      {"ll", "lowercaseletter", bit(kLl)},
      {"lt", "titlecaseletter", bit(kLt)},
      {"lm", "modifierletter", bit(kLm)},
      {"lo", "otherletter", bit(kLo)},
      {"m", "mark", kMarks},
      {"mn", "nonspacingmark", bit(kMn)},
      {"mc", "spacingmark", bit(kMc)},
      {"me", "enclosingmark", bit(kMe)},
      {"n", "number", kNumbers},
      {"nd", "decimalnumber", bit(kNd)},
      {"nl", "letternumber", bit(kNl)},
      {"no", "othernumber", bit(kNo)},
      {"p", "punctuation", kPunctuation},
      {"pc", "connectorpunctuation", bit(kPc)},
      {"pd", "dashpunctuation", bit(kPd)},
      {"ps", "openpunctuation", bit(kPs)},
      {"pe", "closepunctuation", bit(kPe)},
      {"pi", "initialpunctuation", bit(kPi)},
      {"pf", "finalpunctuation", bit(kPf)},
      {"po", "otherpunctuation", bit(kPo)},
      {"s", "symbol", kSymbols},
      {"sm", "mathsymbol", bit(kSm)},
      {"sc", "currencysymbol", bit(kSc)},
      {"sk", "modifiersymbol", bit(kSk)},
      {"so", "othersymbol", bit(kSo)},
      {"z", "separator", kSeparators},
      {"zs", "spaceseparator", bit(kZs)},
      {"zl", "lineseparator", bit(kZl)},
      {"zp", "paragraphseparator", bit(kZp)},
      {"c", "other", kOthers},
      {"cc", "control", bit(kCc)},
      {"cf", "format", bit(kCf)},
      {"cs", "surrogate", bit(kCs)},
      {"co", "privateuse", bit(kCo)},
      {"cn", "unassigned", bit(kCn)},
  }};
  std::string plain;
  for (const char byte : name)
    if (byte != ' ' && byte != '_' && byte != '-')
      plain += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const Name& is) { return is.brief == plain || is.full == plain; });
  return found == names.end() ? 0 : found->categories;
}

char32_t fold_case(char32_t point) {
  if (point < 0x80) return point >= 'a' && point <= 'z' ? point - 32 : point;
  static const data::Mapping smallest(data::kCaseClasses);
  return smallest[point];
}

std::string lower_case(std::string_view text) {
  static const data::Mapping small_letters(data::kLowerCase);
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (point < 0x80)
      lower += static_cast<char>(point >= 'A' && point <= 'Z' ? point + 32 : point);
    else if (point == 0x130)  // the only one that becomes two
      lower += "i\u0307";
    else
      append_code_point(lower, small_letters[point]);
  }
  return lower;
}

}  // namespace weft::tokenizer
