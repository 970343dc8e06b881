// A regular expression as a tree, before it becomes steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/code_point_set.hpp"
#include "tokenizer/regex.hpp"

namespace weft::tokenizer {

constexpr uint32_t kUnlimited = UINT32_MAX;

struct RegexNode {
  enum class Kind : uint8_t { kSet, kSequence, kAlternatives, kRepeat, kLook, kAtomic, kPlace } kind;
  std::vector<RegexNode> children = {};
  CodePointSet set = {};
  uint32_t least = 0, most = 0;
  RegexStep::Greed greed = RegexStep::Greed::kGreedy;
  bool negated = false;
  RegexStep::Kind place = RegexStep::Kind::kDone;
};

// Throws as compile_regex does.
RegexNode parse_regex(std::string_view expression, const std::string& source);
RegexProgram write_regex(const RegexNode& tree, const std::string& source);

}  // namespace weft::tokenizer
