// Norms over the published shards of all ranks.
#pragma once

#include <vector>

#include "training/training.hpp"

namespace weft::optim {

// The sum of squares of the elements that this rank counts, in float64. Not finite if a gradient is not.
double counted_sum_of_squares(const std::vector<Shard>& shards);

}  // namespace weft::optim
