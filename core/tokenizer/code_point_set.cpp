#include "tokenizer/code_point_set.hpp"

#include <algorithm>

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

bool CodePointSet::has_item(Points points) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    const auto in = [&](char32_t point) {
      switch (item.kind) {
        case Item::Kind::kRange:
          return item.first <= point && point <= item.last;
        case Item::Kind::kCategories:
          return is_in(point, item.index);
        case Item::Kind::kWhiteSpace:
          return is_white_space(point);
        default:
          return is_word(point);
      }
    };
    if (item.kind == Item::Kind::kSet) return sets_[item.index].has_one(points);
    return std::any_of(points.begin(), points.end(),
                       [&](char32_t point) { return in(point) != item.negated; });
  });
}

bool CodePointSet::has_one(Points points) const {
  return has_item(ignore_case_ ? points : points.substr(0, 1)) != negated_;
}

bool CodePointSet::test(char32_t point) const {
  std::array<char32_t, 3> points = {point};
  size_t count = 1;
  if (ignore_case_) {
    const char32_t folded = fold_case(point);
    const bool is_capital = folded >= 'A' && folded <= 'Z', is_small = folded >= 'a' && folded <= 'z';
    points[count++] = folded;
    if (is_capital || is_small) points[count++] = is_capital ? folded + 32 : folded - 32;
  }
  return has_one({points.data(), count});
}

void CodePointSet::close() {
  ascii_ = {};
  for (CodePointSet& set : sets_) set.close();
  for (char32_t point = 0; point < 128; ++point)
    if (test(point)) ascii_[point / 64] |= uint64_t{1} << (point % 64);
}

}  // namespace weft::tokenizer
