// Averaged weights in checkpoints.
#pragma once

#include <string>

#include "files/parts.hpp"
#include "training/weight_average.hpp"

namespace weft::checkpoint {

// Whether an entry of a training state is a part of averaged weights, "average/PARAMETER".
bool is_average(const std::string& name);
// Append the averages: those that a rank holds, and those that are to be filled.
void add_averages(WeightAverage& average, Pieces& pieces);
void want_averages(WeightAverage& average, Pieces& pieces);
// Fills the averages from a training state. Throws DATA_LOSS unless it has all of them; returns false if it
// has none.
bool read_averages(const PartsReader& parts, const std::string& path, WeightAverage& average);
// Returns the values of a model whose trained weights are the averages.
Pieces averaged_values(WeightAverage& average, const std::vector<Shard>& shards);

}  // namespace weft::checkpoint
