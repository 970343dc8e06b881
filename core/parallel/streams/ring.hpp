// An all-gather and a reduce-scatter around a ring, overlapped with the computation on each part.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "streams/positions.hpp"

namespace weft::parallel {

// Calls visit(rank, part) with the part (B, positions of that rank, ...) of every rank, beginning with this
// rank's own `part`, while the next part is under way. Each of the P ranks sends P - 1 parts. Collective, not
// recorded by autograd.
void visit_parts(const Positions& positions, const at::Tensor& part, int64_t total,
                 const std::function<void(int rank, const at::Tensor& part)>& visit);

// Returns this rank's part (B, its positions, ...) of the sum over the ranks. partial(rank) computes what
// this rank contributes to the part of `rank`; contributions are added in the order of the ring. Each of the
// P ranks sends P - 1 parts. Collective, not recorded by autograd.
at::Tensor sum_parts(const Positions& positions, int64_t total,
                     const std::function<at::Tensor(int rank)>& partial);

}  // namespace weft::parallel
