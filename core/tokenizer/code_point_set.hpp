// A set of code points, as a class of a regular expression describes it.
#pragma once

#include <array>
#include <cstdint>
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
  // Adds the points that are equal up to case to one of the set; `negate` applies to the result. Of sets in
  // sets the outermost does it for all.
  void ignore_case() { ignore_case_ = true; }
  bool ignores_case() const { return ignore_case_; }
  bool is_negated() const { return negated_; }
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
  bool test(char32_t point) const;
  bool has_item(char32_t point) const;

  std::vector<Item> items_;
  std::vector<CodePointSet> sets_;
  std::array<uint64_t, 2> ascii_ = {};
  bool negated_ = false;
  bool ignore_case_ = false;
};

}  // namespace weft::tokenizer
