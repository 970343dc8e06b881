// The normalization of a SentencePiece model ("precompiled_charsmap").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/limits.hpp"

namespace weft::tokenizer {

// Maps sequences of characters to others: a trie as a double array (the layout of Darts-clone), and the texts
// that its values point at.
class Charsmap {
 public:
  // Reads the bytes of a map; one without bytes changes nothing. Throws DATA_LOSS, naming `source`, if they
  // are damaged.
  Charsmap(std::string_view bytes, const std::string& source);

  // Returns a text, whose grapheme clusters of at most 5 bytes, and the characters of the others, are
  // replaced. As in Hugging Face's tokenizers, the shortest entry that the cluster begins with replaces all
  // of it.
  std::string apply(std::string_view text, Work work) const;

  struct Found {
    size_t size = 0;        // of the entry
    std::string_view text;  // what replaces it
  };
  // Returns the longest entry that `text` begins with, as SentencePiece replaces it; nothing if there is
  // none.
  std::optional<Found> longest(std::string_view text, Work work) const;

 private:
  // Appends what replaces `part`; returns false if nothing does.
  bool replace(std::string_view part, std::string& out) const;

  // Returns whether a text may begin there, and not at a place that a damaged map gives.
  bool may_begin(uint32_t begin) const;
  std::string_view text_at(uint32_t begin) const;

  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

// Returns the bytes of a text in base64. Throws DATA_LOSS, naming `source`, if it is none.
std::string bytes_of_base64(std::string_view text, const std::string& source);

}  // namespace weft::tokenizer
