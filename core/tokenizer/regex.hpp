// Regular expressions as tokenizer.json has them (the syntax of Oniguruma), as far as real files use it:
// classes (\s \d \w \p{..} [..]), alternatives, groups, (?i:..), lookahead, and greedy, lazy and possessive
// repetition. Everything else is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tokenizer/code_point_set.hpp"

namespace weft::tokenizer {

// One step of a compiled expression.
struct RegexStep {
  enum class Kind : uint8_t {
    kSet,     // one code point of sets[set]
    kRun,     // between `least` and `most` code points of sets[set]; see Greed
    kFork,    // goes on at `next`, and if that fails at `other`
    kJump,    // goes on at `next`
    kLook,    // what begins behind this step matches here (or does not: `negated`); goes on at `other`
    kAtomic,  // takes the first match of what begins behind this step; goes on at `other`
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kWordEdge,  // (`negated`: no edge)
    kDone
  } kind = Kind::kDone;
  enum class Greed : uint8_t { kGreedy, kLazy, kPossessive } greed = Greed::kGreedy;
  bool negated = false;
  uint32_t set = 0, next = 0, other = 0;
  uint32_t least = 0, most = 0;
};

struct RegexProgram {
  std::vector<RegexStep> steps;
  std::vector<CodePointSet> sets;
};

// Throws UNIMPLEMENTED, with `source`, for a construct that is not supported, DATA_LOSS for one that is wrong
// and for an expression of more than a few thousand steps.
RegexProgram compile_regex(std::string_view expression, const std::string& source);

class Regex {
 public:
  Regex(std::string_view expression, const std::string& source)
      : program_(compile_regex(expression, source)) {}

  // Returns where the leftmost match that begins at or behind `from` begins and ends, if there is one.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

 private:
  RegexProgram program_;
};

// Calls take(begin, end) with each match, from left to right; an empty one only where no other ended.
template <typename Take>
void each_match(const Regex& regex, std::string_view text, Take take) {
  size_t at = 0, last_end = std::string_view::npos;
  while (at <= text.size()) {
    const auto match = regex.find(text, at);
    if (!match) return;
    if (match->first == match->second) {
      if (match->first != last_end) take(match->first, match->second);
      at = match->second + 1;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    } else {
      take(match->first, match->second);
      at = match->second;
    }
    last_end = match->second;
  }
}

}  // namespace weft::tokenizer
