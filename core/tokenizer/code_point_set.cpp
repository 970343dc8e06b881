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

bool CodePointSet::has_item(char32_t point) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    bool in = false;
    switch (item.kind) {
      case Item::Kind::kRange:
        in = item.first <= point && point <= item.last;
        break;
      case Item::Kind::kCategories:
        in = is_in(point, item.index);
        break;
      case Item::Kind::kWhiteSpace:
        in = is_white_space(point);
        break;
      case Item::Kind::kWord:
        in = is_word(point);
        break;
      case Item::Kind::kSet:
        in = sets_[item.index].test(point);
        break;
    }
    return in != item.negated;
  });
}

bool CodePointSet::test(char32_t point) const {
  bool in = has_item(point);
  if (!in && ignore_case_) {
    const char32_t folded = fold_case(point);
    const bool is_capital = folded >= 'A' && folded <= 'Z', is_small = folded >= 'a' && folded <= 'z';
    in = has_item(folded) || (is_capital && has_item(folded + 32)) || (is_small && has_item(folded - 32));
  }
  return in != negated_;
}

void CodePointSet::close() {
  ascii_ = {};
  for (CodePointSet& set : sets_) set.close();
  for (char32_t point = 0; point < 128; ++point)
    if (test(point)) ascii_[point / 64] |= uint64_t{1} << (point % 64);
}

}  // namespace weft::tokenizer
