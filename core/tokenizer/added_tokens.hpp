// Tokens that are found in a text before it is cut into words: special tokens and those that were added to a
// trained vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tokenizer/interfaces.hpp"

namespace weft::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word goes on at its sides
  bool left_strip = false;   // takes the white space in front of it
  bool right_strip = false;
  bool normalized = false;  // is looked for in the text that the normalizer returns
  bool special = false;     // is left out of decoded text if that is wanted
  bool in_text = true;      // is looked for in texts
};
// Reads {"content": ..., "lstrip": ...} or a text. `special` is used where the object says nothing about it,
// and for a text.
AddedToken read_added_token(const Json& value, bool special, const std::string& source);

class AddedTokens {
 public:
  // Adds a token, unless its content is known or empty. Its id is the model's, or else the next free one: so
  // Hugging Face numbers them, whatever a file says.
  void add(const AddedToken& token, const TokenTable& model);
  // Prepares split(). Call it after the last add().
  void close(const Normalizer* normalizer);

  // One part of a text: a token, or text between tokens.
  struct Part {
    std::optional<int64_t> id;
    size_t begin = 0, end = 0;
  };
  enum class Text : uint8_t { kRaw, kNormalized };
  // Cuts a text at the tokens that are looked for in this kind of it; of several the leftmost, and the
  // longest.
  std::vector<Part> split(std::string_view text, Text kind, Work work) const;

  const TokenTable& tokens() const { return tokens_; }
  bool is_special(const std::string& content) const { return special_.count(content) > 0; }
  // Returns all that changes ids, for a digest.
  std::string description() const;

 private:
  // A tree of bytes.
  class Tree {
   public:
    void add(std::string_view content, size_t token);
    // Returns the longest token that begins at `at` and its size.
    std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t at, Work work) const;

   private:
    struct Node {
      std::vector<std::pair<char, uint32_t>> children;
      std::optional<size_t> token;
    };
    uint32_t child(uint32_t node, char byte) const;  // 0 if there is none
    std::vector<Node> nodes_ = {{}};
    std::array<bool, 256> begins_ = {};
  };

  struct Entry {
    AddedToken token;
    int64_t id;
  };
  std::vector<Entry> list_;
  TokenTable tokens_;
  std::unordered_set<std::string> special_;
  Tree raw_, normalized_;
};

}  // namespace weft::tokenizer
