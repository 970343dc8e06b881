#include "tokenizer/folded_text.hpp"

#include <string>

#include "tokenizer/normal_forms.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Kind = FoldedUnit::Kind;
constexpr char32_t kReplacement = 0xFFFD, kSpelledSpace = 0x2581;

Kind kind_of(char32_t point) {
  if (is_white_space(point) || point == kSpelledSpace) return Kind::kSpace;
  if (is_in(point, kMarks)) return Kind::kMark;
  return is_control(point) || point == kReplacement ? Kind::kControl : Kind::kText;
}

// Returns the code points of a character, as UTF-8.
std::string folded_character(std::string_view character) {
  // Lower case can be a composed character again, and a form for compatibility can be a capital.
  return normalized(lower_case(normalized(character, NormalForm::kKD)), NormalForm::kKD);
}

}  // namespace

std::vector<FoldedUnit> folded(std::string_view text) {
  std::vector<FoldedUnit> units;
  units.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const Utf8Step step = byte < 0x80 ? Utf8Step{1, true} : utf8_step(text.substr(at));
    const size_t end = at + step.size;
    const auto add = [&](char32_t point) {
      const Kind kind = kind_of(point);
      units.push_back({kind == Kind::kSpace ? U' ' : point, at, end, kind});
    };
    if (!step.valid) {
      add(kReplacement);
    } else if (byte < 0x80) {
      add(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
    } else {
      const std::string points = folded_character(text.substr(at, step.size));
      for (size_t next = 0; next < points.size();) add(next_code_point(points, next));
    }
    at = end;
  }
  return units;
}

}  // namespace weft::tokenizer
