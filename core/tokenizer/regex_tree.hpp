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
  // A text becomes sets in resolve_case().
  enum class Kind : uint8_t {
    kText,
    kSet,
    kSequence,
    kAlternatives,
    kGroup,
    kRepeat,
    kLook,
    kAtomic,
    kPlace,
    kReference
  } kind;
  std::vector<RegexNode> children = {};
  std::u32string text = {};
  bool ignore_case = false;           // of a text or a reference
  bool is_open = false;               // of a text: the next plain character belongs to it
  uint32_t set = 0;                   // its place in the sets of the tree
  std::vector<uint32_t> groups = {};  // of a group its number, if it has one; of a reference those it means
  uint32_t least = 0, most = 0;
  RegexStep::Greed greed = RegexStep::Greed::kGreedy;
  bool negated = false;
  RegexStep::Kind place = RegexStep::Kind::kDone;
};

struct RegexTree {
  RegexNode root;
  std::vector<CodePointSet> sets;
  std::vector<uint32_t> referenced = {};  // the numbers of the groups that references mean, sorted
};

// Throws as compile_regex does.
RegexTree parse_regex(std::string_view expression, const std::string& source);
// Makes sets of texts, and adds to what ignores case the foldings of several code points.
void resolve_case(RegexTree& tree);
RegexProgram write_regex(RegexTree tree, const std::string& source);

}  // namespace weft::tokenizer
