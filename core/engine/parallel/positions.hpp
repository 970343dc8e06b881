// How the positions of a sequence lie on the ranks that share it out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/cut.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// T positions on P ranks, in parts whose sizes differ by at most one a segment. In order: rank r has one
// segment, the r-th of P. Zigzag: the r-th and the r-th last of 2 P, so that under a causal mask every rank
// has as much to attend to.
class Positions {
 public:
  enum class Order { kInOrder, kZigzag };
  Positions(Communicator ranks, Order order) : ranks_(std::move(ranks)), order_(order) {}

  const Communicator& ranks() const { return ranks_; }
  std::vector<Run> of(int rank, int64_t total) const;  // ascending
  int64_t count(int rank, int64_t total) const;

  // Of (B, T, ...), or of a tensor with T positions along `dim`, those of a rank.
  at::Tensor of(int rank, const at::Tensor& whole, int64_t dim = 1) const;
  at::Tensor own(const at::Tensor& whole, int64_t dim = 1) const { return of(ranks_.rank(), whole, dim); }

  // (B, T, ...) out of the ranks' parts. No graph. Collective; so is the next.
  at::Tensor gathered(const at::Tensor& part, int64_t total) const { return start_gathering(part, total)(); }
  // Begins it; what is returned waits for the end.
  std::function<at::Tensor()> start_gathering(const at::Tensor& part, int64_t total) const;
  // This rank's part of the sum over the ranks of `partial` (B, T, ...). No graph.
  at::Tensor scattered(const at::Tensor& partial) const;

 private:
  int64_t most(int64_t total) const;  // of a rank
  at::Tensor in_order(const at::Tensor& all, int64_t total) const;

  Communicator ranks_;
  Order order_;
};

}  // namespace weft::parallel
