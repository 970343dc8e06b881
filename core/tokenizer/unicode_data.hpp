// The tables that unicode_tables.py writes: numbers as text, which the functions here read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::tokenizer::data {

// Runs of equal values over all code points: (length, value) of each.
extern const std::string_view kCategories, kNumbers, kBreaks, kMarks, kNonspacingMarks, kPunctuation,
    kControls, kCombiningClasses;
// Pairs of code points: (distance from the previous point, signed distance to the other point).
extern const std::string_view kCaseClasses, kLowerCase;
// Case foldings of several points: (distance from the previous point, size, the points as signed distances,
// each from the one before it in the table).
extern const std::string_view kLongFolds;
// Decompositions: (distance from the previous point, 2 * size + 1 if composition excludes it, the code points
// as signed distances, each from the one before it in the table).
extern const std::string_view kCanonical, kCompatibility;

// Reads numbers one after the other.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}
  bool at_end() const { return at_ == text_.size(); }
  uint32_t next();
  int32_t next_signed();

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// A value for each code point, from a table of runs. Planes 0 and 1 are looked up, the others are searched.
class Property {
 public:
  explicit Property(std::string_view runs);
  uint8_t operator[](char32_t point) const {
    return point < low_.size() ? low_[point] : point <= 0x10FFFF ? search(point) : 0;
  }

 private:
  uint8_t search(char32_t point) const;
  std::vector<uint8_t> low_;
  std::vector<std::pair<char32_t, uint8_t>> high_;  // the first point behind a run, and its value
};

// A code point for some code points, from a table of pairs.
class Mapping {
 public:
  explicit Mapping(std::string_view pairs);
  char32_t operator[](char32_t point) const;  // the point itself if it has no other

 private:
  std::vector<std::pair<char32_t, char32_t>> pairs_;
};

}  // namespace weft::tokenizer::data
