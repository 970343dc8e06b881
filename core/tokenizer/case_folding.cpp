#include "tokenizer/case_folding.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tokenizer/unicode_data.hpp"

namespace weft::tokenizer {

namespace {

// The variants of each code point that has some, sorted by the points.
class Variants {
 public:
  Variants() {
    std::map<char32_t, std::u32string> classes;  // by the smallest point
    char32_t point = 0;
    for (data::Numbers numbers(data::kCaseClasses); !numbers.at_end();) {
      point += numbers.next();
      const char32_t smallest = point + static_cast<char32_t>(numbers.next_signed());
      std::u32string& members = classes[smallest];
      if (members.empty()) members = {smallest};
      members += point;
    }
    for (auto& [smallest, members] : classes) texts_.push_back(std::move(members));
    for (size_t i = 0; i < texts_.size(); ++i)
      for (const char32_t member : texts_[i]) places_.emplace_back(member, i);
    std::sort(places_.begin(), places_.end());
  }

  std::u32string_view of(char32_t point) const {
    const auto found = std::lower_bound(places_.begin(), places_.end(), std::pair(point, size_t{0}));
    return found != places_.end() && found->first == point ? std::u32string_view(texts_[found->second])
                                                           : std::u32string_view();
  }

 private:
  std::vector<std::u32string> texts_;
  std::vector<std::pair<char32_t, size_t>> places_;
};

std::vector<LongFold> read_long_folds() {
  std::vector<LongFold> folds;
  char32_t point = 0, last = 0;
  for (data::Numbers numbers(data::kLongFolds); !numbers.at_end();) {
    point += numbers.next();
    LongFold fold{point, std::u32string(numbers.next(), U'\0')};
    for (char32_t& part : fold.folded) part = last += static_cast<char32_t>(numbers.next_signed());
    folds.push_back(std::move(fold));
  }
  return folds;
}

}  // namespace

std::u32string_view case_variants(char32_t point) {
  static const Variants variants;
  return variants.of(point);
}

const std::vector<LongFold>& long_folds() {
  static const std::vector<LongFold> folds = read_long_folds();
  return folds;
}

}  // namespace weft::tokenizer
