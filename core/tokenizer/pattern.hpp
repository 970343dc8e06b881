// A pattern of tokenizer.json: {"Regex": "\\s+"} or {"String": " "}.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/search.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/regex.hpp"

namespace weft::tokenizer {

class Pattern {
 public:
  // Reads the member "pattern".
  explicit Pattern(const JsonPart& part);

  // Calls take(begin, end) with each match, from left to right.
  template <typename Take>
  void each(std::string_view text, Limits& limits, Take take) const {
    if (regex_) {
      regex_->each_match(text, limits, take);
      return;
    }
    for (size_t at = find_part(text, string_); at != std::string_view::npos && !string_.empty();
         at = find_part(text, string_, at + string_.size()))
      take(at, at + string_.size());
  }

 private:
  std::optional<Regex> regex_;
  std::string string_;
};

}  // namespace weft::tokenizer
