// A set of code points, as a class of a regular expression describes it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::tokenizer {

class CodePointSet {
 public:
  void add_range(char32_t first, char32_t last);  // with both ends
  void add_categories(uint32_t categories, bool negated);
  void add_white_space(bool negated);
  void add_word(bool negated);
  void add(const CodePointSet& other);
  void negate() { negated_ = !negated_; }
  void ignore_case() { ignore_case_ = true; }
  // Prepares `contains`. Call it once, after the calls above.
  void close();

  bool contains(char32_t point) const {
    return point < 128 ? (ascii_[point / 64] >> (point % 64) & 1) != 0 : test(point);
  }

 private:
  struct Item {
    enum class Kind : uint8_t { kRange, kCategories, kWhiteSpace, kWord, kSet } kind;
    bool negated = false;
    char32_t first = 0, last = 0;  // of a range
    uint32_t index = 0;            // the categories, or the place in sets_
  };
  using Points = std::basic_string_view<char32_t>;
  bool test(char32_t point) const;
  // Returns whether the set has one of the points, which are equal up to case; of others the first alone
  // counts.
  bool has_one(Points points) const;
  bool has_item(Points points) const;

  std::vector<Item> items_;
  std::vector<CodePointSet> sets_;
  std::array<uint64_t, 2> ascii_ = {};
  bool negated_ = false;
  bool ignore_case_ = false;
};

}  // namespace weft::tokenizer
