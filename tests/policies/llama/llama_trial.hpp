// Llama, and families of the same modules, to be trained.
#pragma once

#include <string>
#include <vector>

#include "policies/trials.hpp"

namespace weft::test {

struct TinyLlama {
  std::string architecture;
  int64_t key_heads;
  bool tied;
  std::string type = "llama", more = "";
};

// Biases of keys in fp64 only: what rounding adds to their small gradients is too much of them.
Model tiny_llama(const TinyLlama& llama, const std::string& precision);
// Returns the batch of a class. Id 20 is padding, whose row has no gradient.
Batch llama_batch(const std::string& architecture, int64_t step);
// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial llama_trial(const TinyLlama& llama, const std::string& precision);

// Return what family_trials() consists of.
TinyTrial llama_model(const TinyLlama& llama);
TinyTrial packed_llama(const TinyLlama& llama);
TinyTrial llama_base(TinyLlama llama, const std::string& architecture);
TinyTrial llama_form(const std::string& architecture, const std::string& config);
// Returns models of the classes of `family` ("Llama") for sequences, tokens and answers, in fp64.
std::vector<TinyTrial> llama_classifiers(TinyLlama llama, const std::string& family);

}  // namespace weft::test
