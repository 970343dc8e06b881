#include "tokenizer/normal_forms.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tokenizer/unicode_data.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// Syllables of Hangul are computed (The Unicode Standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kNumLeading = 19, kNumVowels = 21, kNumTrailing = 28;
constexpr char32_t kNumSyllables = kNumLeading * kNumVowels * kNumTrailing;

class Decompositions {
 public:
  Decompositions() {
    read(data::kCanonical, false);
    read(data::kCompatibility, true);
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.point < b.point; });
  }

  // Appends what a code point becomes, down to code points that stay.
  void append(char32_t point, bool compatibility, std::u32string& out) const {
    if (point - kSyllables < kNumSyllables) {
      const char32_t index = point - kSyllables;
      out += kLeading + index / (kNumVowels * kNumTrailing);
      out += kVowels + index / kNumTrailing % kNumVowels;
      if (index % kNumTrailing != 0) out += kTrailing + index % kNumTrailing;
      return;
    }
    const Entry* entry = find(point);
    if (!entry || (entry->compatibility && !compatibility)) {
      out += point;
      return;
    }
    for (uint32_t i = 0; i < entry->size; ++i) append(points_[entry->begin + i], compatibility, out);
  }

  // Returns the code point that two make up; 0 if there is none.
  char32_t composed(char32_t first, char32_t second) const {
    if (first - kLeading < kNumLeading && second - kVowels < kNumVowels)
      return kSyllables + ((first - kLeading) * kNumVowels + second - kVowels) * kNumTrailing;
    const bool has_no_end = first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTrailing == 0;
    if (has_no_end && second > kTrailing && second < kTrailing + kNumTrailing)
      return first + second - kTrailing;
    const auto found = pairs_.find(uint64_t{first} << 32 | second);
    return found == pairs_.end() ? 0 : found->second;
  }

 private:
  struct Entry {
    char32_t point;
    uint32_t begin, size;  // in points_
    bool compatibility;
  };

  void read(std::string_view table, bool compatibility) {
    char32_t point = 0, last = 0;
    for (data::Numbers numbers(table); !numbers.at_end();) {
      point += numbers.next();
      const uint32_t size_and_excluded = numbers.next(), size = size_and_excluded / 2;
      const auto begin = static_cast<uint32_t>(points_.size());
      for (uint32_t i = 0; i < size; ++i) {
        last += static_cast<char32_t>(numbers.next_signed());
        points_ += last;
      }
      entries_.push_back({point, begin, size, compatibility});
      blocks_.set(point / kBlock);
      if (!compatibility && size == 2 && size_and_excluded % 2 == 0)
        pairs_[uint64_t{points_[begin]} << 32 | points_[begin + 1]] = point;
    }
  }

  const Entry* find(char32_t point) const {
    if (point / kBlock >= blocks_.size() || !blocks_.test(point / kBlock)) return nullptr;
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), point,
                         [](const Entry& entry, char32_t wanted) { return entry.point < wanted; });
    return found != entries_.end() && found->point == point ? &*found : nullptr;
  }

  static constexpr char32_t kBlock = 64;
  std::bitset<0x30000 / kBlock> blocks_;  // those with entries: most text needs no search
  std::vector<Entry> entries_;
  std::u32string points_;
  std::unordered_map<uint64_t, char32_t> pairs_;
};

uint8_t combining_class(char32_t point) {
  static const data::Property all(data::kCombiningClasses);
  return all[point];
}

// Sorts marks that do not touch each other by their class (canonical ordering).
void order_marks(std::u32string& points) {
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && combining_class(points[end]) != 0) ++end;
    if (end - begin > 1)
      std::stable_sort(points.begin() + static_cast<ptrdiff_t>(begin),
                       points.begin() + static_cast<ptrdiff_t>(end),
                       [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    begin = end + 1;
  }
}

// Joins each code point with the last starter before it, unless something between them keeps them apart.
void compose(std::u32string& points, const Decompositions& all) {
  size_t size = 0, starter = 0;
  bool has_starter = false;
  uint8_t last_class = 0;
  for (const char32_t point : points) {
    const uint8_t own_class = combining_class(point);
    const bool adjacent = has_starter && starter + 1 == size;
    if (has_starter && (adjacent || last_class < own_class)) {
      if (const char32_t joined = all.composed(points[starter], point)) {
        points[starter] = joined;
        continue;
      }
    }
    if (own_class == 0) {
      starter = size;
      has_starter = true;
    }
    last_class = own_class;
    points[size++] = point;
  }
  points.resize(size);
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);

  static const Decompositions all;
  const bool compatibility = form == NormalForm::kKC || form == NormalForm::kKD;
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (point < 0x80)
      points += point;
    else
      all.append(point, compatibility, points);
  }
  order_marks(points);
  if (form == NormalForm::kC || form == NormalForm::kKC) compose(points, all);

  std::string result;
  result.reserve(text.size());
  for (const char32_t point : points) append_code_point(result, point);
  return result;
}

}  // namespace weft::tokenizer
