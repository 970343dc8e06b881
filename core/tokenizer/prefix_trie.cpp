#include "tokenizer/prefix_trie.hpp"

#include <algorithm>

namespace weft::tokenizer {

PrefixTrie::PrefixTrie(const std::vector<std::pair<std::string_view, int32_t>>& tokens) {
  // Breadth first: the tokens of a node are the range that begins with its bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && tokens[begin].first.size() == depth) {
      if (depth > 0) nodes_[node].id = tokens[begin].second;
      ++begin;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = tokens[begin].first[depth];
      size_t next = begin;
      while (next < end && tokens[next].first[depth] == byte) ++next;
      Node child;
      child.byte = static_cast<uint8_t>(byte);
      nodes_.push_back(child);
      ++nodes_[node].num_children;
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
}

uint32_t PrefixTrie::child(uint32_t node, uint8_t byte) const {
  const Node* begin = nodes_.data() + nodes_[node].first_child;
  const Node* end = begin + nodes_[node].num_children;
  const Node* found =
      std::lower_bound(begin, end, byte, [](const Node& is, uint8_t wanted) { return is.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.data()) : 0;
}

}  // namespace weft::tokenizer
