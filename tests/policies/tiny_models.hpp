// What the tiny models of several families have in common: sizes that no number of ranks divides.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

// Tolerances of gradients in tests of families.
inline double trial_tolerance(const std::string& precision) {
  return precision == "fp64" ? 1e-10 : 5e-5;
}

Model tiny_model(const std::string& config, const std::string& architecture, const std::string& precision);

// Returns the inputs and labels of a class: samples of 7 positions, 23 tokens, 3 labels.
Batch class_batch(const std::string& architecture, int64_t samples, int64_t seed);
// Gives rows of a batch of 6 samples padding on the right and on the left. A loss over all positions gets it
// on the right only: what a position returns that attends to nothing is not defined.
Batch padded(const std::string& architecture, Batch batch);

// Returns the trial with rows of 3 to 7 tokens and padding on either side. Other tokens stay as they are.
Trial padded_trial(Trial trial);
// Returns the trial with rows of up to three documents, which do not attend to each other, and without a
// mask.
Trial packed_trial(Trial trial);
// Returns the trial of a base model with ids alone, because it takes no labels.
Trial base_trial(Trial trial);
// Returns the trial with a batch of 3 samples.
Trial form_trial(Trial trial);

}  // namespace weft::test
