// Every class of a family in every way to train it. training_test.cpp trains these cases, and
// class_table_test.cpp compares what sdk/docs/models.md says of classes with them.
#pragma once

#include <string>
#include <vector>

#include "plugins/support/parity.hpp"
#include "plugins/support/refusals.hpp"

namespace weft::test {

struct ClassCase {
  std::string architecture;
  std::string how;     // begins a sentence about it: "under the strategies", "with", "in the sequence modes"
  std::string column;  // what the sentence names: "`gemini`", "tensor parallelism", "`ring`"
  int ranks;           // 1 is what all other cases are compared with
  Case job;            // its trial has a criterion if the class has no loss
};

// Returns all cases of the family's models and bases (trials.hpp). Columns are in the order in which they
// first appear.
std::vector<ClassCase> class_cases();

}  // namespace weft::test
