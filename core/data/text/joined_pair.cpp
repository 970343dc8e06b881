#include "text/joined_pair.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::data {

std::vector<int64_t> JoinedPair::special_ids() const {
  std::vector<int64_t> all;
  for (const Added* part : {&before, &between, &after})
    all.insert(all.end(), part->ids.begin(), part->ids.end());
  return all;
}

EnclosingIds enclosing_ids(const Tokenizer& tokenizer) {
  const std::vector<int64_t> inner = tokenizer.encode("a", false), whole = tokenizer.encode("a", true);
  const auto found = std::search(whole.begin(), whole.end(), inner.begin(), inner.end());
  if (found == whole.end() && !whole.empty())
    fail(WEFT_UNIMPLEMENTED,
         "{}: the ids of a text with special tokens do not contain those without; Weft cannot tokenize "
         "documents with it",
         tokenizer.name());
  return {{whole.begin(), found}, {found + std::ssize(inner), whole.end()}};
}

JoinedPair joined_pair(const Tokenizer& tokenizer) {
  using Ids = std::vector<int64_t>;
  const Ids a = tokenizer.encode("a", false), b = tokenizer.encode("b", false);
  Ids types;
  const Ids pair = tokenizer.encode_pair("a", "b", &types);
  const auto first = std::search(pair.begin(), pair.end(), a.begin(), a.end());
  const auto first_end = first == pair.end() ? first : first + std::ssize(a);
  const auto second = std::search(first_end, pair.end(), b.begin(), b.end());
  if (a.empty() || b.empty() || second == pair.end() || types.size() != pair.size())
    fail(WEFT_UNIMPLEMENTED,
         "{}: the ids of a pair of texts do not contain those of both, one after the other; Weft cannot join "
         "texts with it",
         tokenizer.name());
  const auto added = [&](auto begin, auto end) {
    const auto type_at = [&](auto at) { return types.begin() + (at - pair.begin()); };
    return JoinedPair::Added{Ids(begin, end), Ids(type_at(begin), type_at(end))};
  };
  return {added(pair.begin(), first), added(first_end, second), added(second + std::ssize(b), pair.end()),
          types[static_cast<size_t>(first - pair.begin())],
          types[static_cast<size_t>(second - pair.begin())]};
}

}  // namespace weft::data
