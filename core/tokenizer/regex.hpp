// Regular expressions as tokenizer.json has them (the syntax of Oniguruma), as far as real files use it:
// classes (\s \d \w \p{..} [..]), alternatives, groups, (?i:..), lookahead, and greedy, lazy and possessive
// repetition, and references to groups. Case is ignored with full case folding: "(?i:ss)" matches "ß".
// Everything else is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/code_point_set.hpp"
#include "tokenizer/limits.hpp"

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
    kWordEdge,    // (`negated`: no edge)
    kGroupBegin,  // keeps the place in slots[set], and that the group has no end in slots[set + 1]
    kMark,        // keeps the place in slots[set]
    kReference,   // the text of the first group of references[set] that matched and whose text comes here
    kLoopEnd,     // goes on at `next`, or at `other` if nothing came since the place in slots[set]
    kDone
  } kind = Kind::kDone;
  enum class Greed : uint8_t { kGreedy, kLazy, kPossessive } greed = Greed::kGreedy;
  bool negated = false;
  bool ignore_case = false;  // of a reference
  uint32_t set = 0, next = 0, other = 0;
  uint32_t least = 0, most = 0;
};

struct RegexProgram {
  std::vector<RegexStep> steps;
  std::vector<CodePointSet> sets;
  // Of each reference the slots of its groups: each begins in a slot and ends in the next. Programs without
  // references have no slots.
  std::vector<std::vector<uint32_t>> references;
  uint32_t num_slots = 0;
};

// Throws UNIMPLEMENTED, with `source`, for a construct that is not supported, DATA_LOSS for one that is wrong
// and for an expression that is too long, too deep or of more than a few thousand steps.
RegexProgram compile_regex(std::string_view expression, const std::string& source);

class Regex {
 public:
  // `rule` is the name of the rule that it belongs to, for messages.
  Regex(std::string_view expression, const std::string& rule);

  // Calls take(begin, end) with each match, from left to right; an empty one only where no other ended.
  // Throws RESOURCE_EXHAUSTED where the limits end.
  using Take = std::function<void(size_t begin, size_t end)>;
  void each_match(std::string_view text, Limits& limits, const Take& take) const;

 private:
  std::string name_;
  RegexProgram program_;
};

}  // namespace weft::tokenizer
