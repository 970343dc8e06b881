// Parts and sums that travel from rank to rank while each rank computes with what it has.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "parallel/positions.hpp"

namespace weft::parallel {

// visit(rank, part) for the part (B, its positions, ...) of every rank, this rank's own `part` first. Sends a
// part (P-1) times. Collective, as is the next. No graph.
void visit_parts(const Positions& positions, const at::Tensor& part, int64_t total,
                 const std::function<void(int rank, const at::Tensor& part)>& visit);

// This rank's part (B, its positions, ...) of the sum over the ranks, in the order of the ring, of what
// partial(rank) gives of the part of each. Sends a part (P-1) times.
at::Tensor sum_parts(const Positions& positions, int64_t total,
                     const std::function<at::Tensor(int rank)>& partial);

}  // namespace weft::parallel
