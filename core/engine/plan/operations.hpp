// The operations that a plan may name, and what each does to the parameters of the module it replaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

struct AttributeRule {
  Attribute standard;                // its key, its kind and its default
  std::vector<std::string> choices;  // of a text
  int64_t minimum = 0;               // of an integer
};

// Which parameters the tensor axis splits.
enum class Split {
  kNone,        // none
  kColumn,      // the output features: weight and bias
  kRow,         // the input features: weight only
  kChannels,    // the second dimension of all
  kVocabulary,  // the first dimension of all, in parts that need not be equal
};

struct Operation {
  std::string id;  // "weft.linear_column/1"
  std::vector<std::string> kinds;
  std::vector<AttributeRule> attributes;  // sorted by key
  Split split = Split::kNone;
};

const std::vector<Operation>& known_operations();
const Operation* find_operation(std::string_view id);

// What is wrong with an id that find_operation does not know, with the nearest known ones.
std::string unknown_operation(std::string_view id);

// The attributes given, completed by the defaults and sorted; adds to `problems` what is unknown, given
// twice, of a wrong type or value.
std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems);

// Cuts the parameters of a node; adds to `problems` what does not fit. `attributes` are complete.
PlannedNode cut_node(const Node& node, const Operation& operation, const std::vector<Attribute>& attributes,
                     const ParallelSizes& sizes, std::vector<std::string>& problems);

// A node that stays as it is.
PlannedNode whole_node(const Node& node);

}  // namespace weft::plan
