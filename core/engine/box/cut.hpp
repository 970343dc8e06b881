// What several parts of one tensor have in common. No libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/cut.hpp"

namespace weft {

// The elements of part `own` that no part before it holds, in runs of the flattened part, ascending: every
// element of the tensor that some part holds is in these runs of exactly one part.
std::vector<Run> first_held(const std::vector<Cut>& parts, size_t own);

// Indices of one dimension of a part, and the parts that hold all of them, this one included; ascending.
struct SharedRun {
  Run run;
  std::vector<uint32_t> holders;
};
// The runs of `dim` of part `own`, divided where the holders change. The other dimensions are not looked at.
std::vector<SharedRun> shared_runs(const std::vector<Cut>& parts, size_t own, size_t dim);

// The dimensions along which some part does not hold the whole tensor of this shape; ascending.
std::vector<size_t> split_dims(const std::vector<int64_t>& shape, const std::vector<Cut>& parts);

}  // namespace weft
