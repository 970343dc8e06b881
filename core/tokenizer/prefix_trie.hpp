// Finds all tokens that a text begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::tokenizer {

// A trie over bytes. The children of a node are adjacent and sorted by their byte.
class PrefixTrie {
 public:
  // The tokens with their ids, sorted by token, without repetition. Keeps nothing of the texts.
  explicit PrefixTrie(const std::vector<std::pair<std::string_view, int32_t>>& tokens);
  PrefixTrie() = default;

  // Calls take(size, id) with each token that `text` begins with, the shortest first. Returns how many bytes
  // it has looked at.
  template <typename Take>
  size_t each_prefix(std::string_view text, Take take) const {
    uint32_t node = 0;
    size_t size = 0;
    while (size < text.size()) {
      node = child(node, static_cast<unsigned char>(text[size++]));
      if (node == 0) break;
      if (nodes_[node].id >= 0) take(size, nodes_[node].id);
    }
    return size;
  }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t byte = 0;
    int32_t id = -1;  // -1 if no token ends here
  };
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0, the root, if there is none

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace weft::tokenizer
