// The ids of words that were encoded before. Threads share it; a word may push out another one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace weft::tokenizer {

class WordCache {
 public:
  // Appends the ids of `word`, if they are known.
  bool find(std::string_view word, std::vector<int64_t>& ids) const {
    const size_t hash = std::hash<std::string_view>()(word);
    const Stripe& stripe = (*stripes_)[hash % kStripes];
    const std::lock_guard lock(stripe.mutex);
    const Entry& entry = stripe.entries[hash / kStripes % kEntries];
    if (entry.word != word) return false;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
    return true;
  }

  void put(std::string_view word, const std::vector<uint32_t>& ids) {
    const size_t hash = std::hash<std::string_view>()(word);
    Stripe& stripe = (*stripes_)[hash % kStripes];
    const std::lock_guard lock(stripe.mutex);
    stripe.entries[hash / kStripes % kEntries] = {std::string(word), ids};
  }

  static constexpr size_t kLongestWord = 64;  // longer ones seldom come again

 private:
  static constexpr size_t kStripes = 32, kEntries = 512;
  struct Entry {
    std::string word;  // empty: free
    std::vector<uint32_t> ids;
  };
  struct Stripe {
    mutable std::mutex mutex;
    std::array<Entry, kEntries> entries;
  };
  std::unique_ptr<std::array<Stripe, kStripes>> stripes_ = std::make_unique<std::array<Stripe, kStripes>>();
};

}  // namespace weft::tokenizer
