// What data sets of text need from a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/joined_pair.hpp"

namespace weft::data {

// How a tokenizer joins two sentences, and which ids end one.
struct PairFormat {
  JoinedPair joined;
  std::vector<bool> sentence_ends;  // by id
  bool ends_sentence(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(sentence_ends.size()) &&
           sentence_ends[static_cast<size_t>(id)];
  }
};

struct TextEncoder {
  using Ids = std::vector<int64_t>;
  // Returns the ids of a text, without those around a document. Called from several threads at once.
  std::function<Ids(std::string_view)> encode;
  Ids before, after;            // the ids around a document
  Ids closing;                  // behind one sequence; `after` may end with one more
  int64_t vocabulary_size = 0;  // one more than the largest id
  std::string name, digest;     // for messages; of everything that changes ids
  std::string chat_template;    // Jinja; empty if there is none
  std::string tool_template;    // of conversations with tools; empty: the same
  // The texts of tokens under the names that chat templates give them, such as "bos_token".
  std::vector<std::pair<std::string, std::string>> special_tokens;
  int64_t padding = 0;  // the id of padding
  bool pads_left = false, truncates_left = false;
  // Returns how pairs are joined. Throws INVALID_ARGUMENT if the tokenizer does not join them. Null if there
  // are no tokens to join them with.
  std::function<PairFormat()> pair_format;
};

// Returns the encoder whose tokens are bytes.
TextEncoder byte_encoder();

}  // namespace weft::data
