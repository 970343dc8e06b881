// The reduction of reduce_scatter.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/world.hpp"

namespace weft::comm {

// Computes output = parts[0] op parts[1] op ..., in this order on every rank, so that results do not depend
// on timing. Rounds sums of half and bfloat16 once, at the end. `output` may be parts[own]. Overwrites the
// other parts.
void reduce_in_rank_order(const at::Tensor& output, const std::vector<at::Tensor>& parts, int own,
                          ReduceOp op);

}  // namespace weft::comm
