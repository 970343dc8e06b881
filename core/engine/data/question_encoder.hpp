// What data sets of questions need from a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/token_spans.hpp"

namespace weft::data {

struct QuestionEncoder {
  using Ids = std::vector<int64_t>;
  // Tokens that the tokenizer adds to a pair of sequences, and their types.
  struct Added {
    Ids ids, types;
  };

  // Return the ids of a text by itself, and with them where they are in it. Called from several threads at
  // once.
  std::function<Ids(std::string_view)> encode;
  std::function<TokenSpans::Encoded(std::string_view)> encode_with_spans;
  Added before, between, after;  // the question and the context of a pair
  int64_t question_type = 0, context_type = 0;
  int64_t vocabulary_size = 0;  // one more than the largest id
  std::string name;             // for messages
  int64_t padding = 0;          // the id of padding
  bool pads_left = false;

  // Returns how many tokens a pair has beside those of the question and the context.
  int64_t added() const {
    return static_cast<int64_t>(before.ids.size() + between.ids.size() + after.ids.size());
  }
};

}  // namespace weft::data
