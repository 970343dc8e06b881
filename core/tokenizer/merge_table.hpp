// The merges of a byte-pair encoding, and their application to a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft::tokenizer {

// Finds the rank and the result of a pair of tokens.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone;
    uint32_t result = 0;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void reserve(size_t merges);  // call it first, with the number of merges
  void set(uint32_t left, uint32_t right, Merge merge);
  // Returns a merge with the rank kNone if the pair has none.
  Merge find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return {};
    const uint64_t key = uint64_t{left} << 32 | right;
    for (size_t at = hash(key) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kFree) return {};
    }
  }

  // Merges pairs of neighbours, the one of the lowest rank first and of equal ones the leftmost, until no
  // pair has a merge. Takes time n log n for long words.
  void apply(std::vector<uint32_t>& word) const;

 private:
  static constexpr uint64_t kFree = std::numeric_limits<uint64_t>::max();
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static size_t hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(key ^ key >> 32);
  }
  void apply_to_short(std::vector<uint32_t>& word) const;
  void apply_to_long(std::vector<uint32_t>& word) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace weft::tokenizer
