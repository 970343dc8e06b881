#include "tokenizer/merge_table.hpp"

#include <algorithm>
#include <bit>
#include <queue>

namespace weft::tokenizer {

void MergeTable::reserve(size_t merges) {
  slots_.assign(std::bit_ceil(merges * 2 + 2), {});
  mask_ = slots_.size() - 1;
}

void MergeTable::set(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t key = uint64_t{left} << 32 | right;
  size_t at = hash(key) & mask_;
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

void MergeTable::apply(std::vector<uint32_t>& word) const {
  constexpr size_t kShort = 48;
  if (word.size() < 2) return;
  if (word.size() <= kShort)
    apply_to_short(word);
  else
    apply_to_long(word);
}

// Looks through all pairs for each merge, which is the fastest way while they fit into a few cache lines.
void MergeTable::apply_to_short(std::vector<uint32_t>& word) const {
  Merge merges[64];
  size_t pairs = word.size() - 1;
  for (size_t i = 0; i < pairs; ++i) merges[i] = find(word[i], word[i + 1]);
  while (pairs > 0) {
    size_t best = 0;
    for (size_t i = 1; i < pairs; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == kNone) break;
    word[best] = merges[best].result;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(merges + best + 1, merges + pairs, merges + best);
    --pairs;
    if (best > 0) merges[best - 1] = find(word[best - 1], word[best]);
    if (best < pairs) merges[best] = find(word[best], word[best + 1]);
  }
}

void MergeTable::apply_to_long(std::vector<uint32_t>& word) const {
  // A list of the tokens that are left; the queue may have merges of pairs that are gone.
  const size_t size = word.size();
  std::vector<uint32_t> next(size), previous(size);
  struct Candidate {
    uint32_t rank, at;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  std::vector<bool> gone(size, false);
  const auto propose = [&](uint32_t at) {
    if (next[at] == size) return;
    const Merge merge = find(word[at], word[next[at]]);
    if (merge.rank != kNone) queue.push({merge.rank, at});
  };
  for (uint32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (uint32_t i = 0; i + 1 < size; ++i) propose(i);
  while (!queue.empty()) {
    const Candidate candidate = queue.top();
    queue.pop();
    const uint32_t at = candidate.at;
    if (gone[at] || next[at] == size) continue;
    const Merge merge = find(word[at], word[next[at]]);
    if (merge.rank != candidate.rank) continue;
    const uint32_t right = next[at];
    word[at] = merge.result;
    gone[right] = true;
    next[at] = next[right];
    if (next[right] < size) previous[next[right]] = at;
    propose(at);
    if (at > 0) propose(previous[at]);
  }
  size_t count = 0;
  for (size_t i = 0; i < size; ++i)
    if (!gone[i]) word[count++] = word[i];
  word.resize(count);
}

}  // namespace weft::tokenizer
