// The tiny models of a family that the tests of training in this folder train (training_test.cpp,
// broken_plan_test.cpp, flags_test.cpp, tensor_oracle_test.cpp). The folder of each family defines them in
// its trials.cpp, and weft_add_training_test() in its CMakeLists.txt makes the program <family>_training.
// Every class of the family has at least one in `models` or `bases` (class_table_test.cpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/support/parity.hpp"

namespace weft::test {

// A model with its batches.
struct TinyTrial {
  std::string name;  // of the class, and what is special about it: "OPTForCausalLM, norms after"
  std::function<Trial(const std::string& precision)> trial;
  std::vector<std::string> precisions = {"fp32", "fp64"};  // in which it is trained
  // Draws random numbers for each sample. Data-parallel ranks draw other ones than a single rank.
  bool draws_for_samples = false;
};

struct FamilyTrials {
  // Trained in every way (class_cases.hpp).
  std::vector<TinyTrial> models;
  // Base models and batches without labels, trained in the same ways in fp64 under a criterion of all
  // outputs.
  std::vector<TinyTrial> bases;
  // Models with rows of several documents, also trained in every sequence mode and in stages.
  std::vector<TinyTrial> packed = {};
  // Models whose plans get mistakes.
  std::vector<TinyTrial> plans;
  // Models with dropout, whose layers follow the flags that choose their form.
  std::vector<TinyTrial> forms;
};

// The folder of the family: "gpt2".
extern const char* const kFamily;
FamilyTrials family_trials();

}  // namespace weft::test
