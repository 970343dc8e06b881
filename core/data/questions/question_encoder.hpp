// What data sets of questions need from a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/joined_pair.hpp"
#include "weft/token_spans.hpp"

namespace weft::data {

struct QuestionEncoder {
  using Ids = std::vector<int64_t>;
  // Return the ids of a text by itself, and with them where they are in it. Called from several threads at
  // once.
  std::function<Ids(std::string_view)> encode;
  std::function<TokenSpans::Encoded(std::string_view)> encode_with_spans;
  JoinedPair pair;              // of a question and its context
  int64_t vocabulary_size = 0;  // one more than the largest id
  std::string name;             // for messages
  int64_t padding = 0;          // the id of padding
  bool pads_left = false, truncates_left = false;
};

}  // namespace weft::data
