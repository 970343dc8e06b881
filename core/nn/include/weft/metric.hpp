// How well a model predicts labels, beside its loss.
#pragma once

#include <string>

namespace weft {

// A mean over labels or samples, kept as a sum and a count so that batches and ranks add up exactly.
struct Metric {
  std::string name;  // "accuracy", "exact_match", "f1"
  double sum = 0;
  double count = 0;
};

}  // namespace weft
