#include "tokenizer/code_point_set.hpp"

#include <algorithm>

#include "tokenizer/case_folding.hpp"
#include "tokenizer/unicode.hpp"

namespace weft::tokenizer {

void CodePointSet::add_range(char32_t first, char32_t last) {
  items_.push_back({Item::Kind::kRange, false, first, last, 0});
}
void CodePointSet::add_categories(uint32_t categories, bool negated) {
  items_.push_back({Item::Kind::kCategories, negated, 0, 0, categories});
}
void CodePointSet::add_white_space(bool negated) {
  items_.push_back({Item::Kind::kWhiteSpace, negated, 0, 0, 0});
}
void CodePointSet::add_word(bool negated) {
  items_.push_back({Item::Kind::kWord, negated, 0, 0, 0});
}
void CodePointSet::add(const CodePointSet& other) {
  items_.push_back({Item::Kind::kSet, false, 0, 0, static_cast<uint32_t>(sets_.size())});
  sets_.push_back(other);
}

bool CodePointSet::has_item(char32_t point) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    switch (item.kind) {
      case Item::Kind::kRange:
        return item.first <= point && point <= item.last;
      case Item::Kind::kCategories:
        return is_in(point, item.index) != item.negated;
      case Item::Kind::kWhiteSpace:
        return is_white_space(point) != item.negated;
      case Item::Kind::kWord:
        return is_word(point) != item.negated;
      default:
        return sets_[item.index].contains(point);
    }
  });
}

bool CodePointSet::test(char32_t point) const {
  bool has = has_item(point);
  if (!has && ignore_case_) {
    const std::u32string_view variants = case_variants(point);
    has = std::any_of(variants.begin(), variants.end(), [&](char32_t other) { return has_item(other); });
  }
  return has != negated_;
}

void CodePointSet::close() {
  ascii_ = {};
  for (CodePointSet& set : sets_) set.close();
  for (char32_t point = 0; point < 128; ++point)
    if (test(point)) ascii_[point / 64] |= uint64_t{1} << (point % 64);
}

}  // namespace weft::tokenizer
