// Which elements the parts of one tensor share. Does not need libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/cut.hpp"

namespace weft {

// Returns the elements of part `own` that no earlier part holds, as ascending runs of the flattened part.
// Over all parts, these runs have every element that some part holds exactly once.
std::vector<Run> first_held(const std::vector<Cut>& parts, size_t own);

// Indices of one dimension, and the parts that hold all of them, in ascending order. Includes the part
// itself.
struct SharedRun {
  Run run;
  std::vector<uint32_t> holders;
};
// Returns the runs of part `own` along `dim`, split wherever the holders change. Ignores other dimensions.
std::vector<SharedRun> shared_runs(const std::vector<Cut>& parts, size_t own, size_t dim);

// Returns, in ascending order, the dimensions along which some part does not hold the whole tensor.
std::vector<size_t> split_dims(const std::vector<int64_t>& shape, const std::vector<Cut>& parts);

}  // namespace weft
