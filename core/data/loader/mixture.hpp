// Several data sets as one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Returns batches with the same fields as one batch, their samples one after the other. There is at least
// one.
Batch joined_batches(const std::vector<Batch>& rows);

struct MixturePart {
  std::shared_ptr<Dataset> dataset;
  double weight = 0;  // more than 0
};

// The data sets below have the same fields and objective.

// Returns the samples of all data sets, one data set after the other.
std::shared_ptr<Dataset> concatenation(const std::vector<std::shared_ptr<Dataset>>& datasets);

// Returns a mixture with as many samples as the data sets have together, give or take rounding: of each its
// share by weight, spread evenly over the order. Which of its samples come in an epoch depends on the seed
// and the epoch alone. A data set begins again, in another order, after all of its samples have come.
std::shared_ptr<Dataset> mixture(const std::vector<MixturePart>& parts, int64_t seed);

}  // namespace weft::data
