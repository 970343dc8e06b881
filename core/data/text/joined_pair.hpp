// How a tokenizer joins two sequences: "[CLS] A [SEP] B [SEP]".
#pragma once

#include <cstdint>
#include <vector>

#include "weft/tokenizer.hpp"

namespace weft::data {

struct JoinedPair {
  // Tokens that the tokenizer adds, and their types.
  struct Added {
    std::vector<int64_t> ids, types;
  };
  Added before, between, after;
  int64_t first_type = 0, second_type = 1;  // the types of the tokens of the sequences

  // Returns all ids that the tokenizer adds.
  std::vector<int64_t> special_ids() const;
  // Returns how many they are.
  int64_t added() const {
    return static_cast<int64_t>(before.ids.size() + between.ids.size() + after.ids.size());
  }
};

// The ids that a tokenizer puts around one sequence.
struct EnclosingIds {
  std::vector<int64_t> before, after;
};
// Returns those around the ids of a letter. Throws UNIMPLEMENTED if the ids of a text with special tokens do
// not contain those without.
EnclosingIds enclosing_ids(const Tokenizer& tokenizer);

// Returns how the tokenizer joins two sequences: what stands around the ids of two letters. Throws
// UNIMPLEMENTED if a pair does not have the ids of both, one after the other.
JoinedPair joined_pair(const Tokenizer& tokenizer);

}  // namespace weft::data
