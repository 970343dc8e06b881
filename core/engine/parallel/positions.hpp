// Which positions of a sequence each rank holds when the sequence is split over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/cut.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// Splits T positions over P ranks into segments whose sizes differ by at most one. In order, rank r holds the
// r-th of P segments. In zigzag order it holds the r-th and the r-th last of 2 P segments, which gives every
// rank the same amount of work under a causal mask.
class Positions {
 public:
  enum class Order { kInOrder, kZigzag };
  Positions(Communicator ranks, Order order) : ranks_(std::move(ranks)), order_(order) {}

  const Communicator& ranks() const { return ranks_; }
  // Returns the positions of `rank` among `total`, in ascending order.
  std::vector<Run> of(int rank, int64_t total) const;
  // Returns how many positions `rank` holds.
  int64_t count(int rank, int64_t total) const;

  // Returns the positions of `rank` along dimension `dim` of `whole`, which has all T.
  at::Tensor of(int rank, const at::Tensor& whole, int64_t dim = 1) const;
  // Returns the positions of this rank.
  at::Tensor own(const at::Tensor& whole, int64_t dim = 1) const { return of(ranks_.rank(), whole, dim); }

  // All-gathers the ranks' parts (B, t, ...) and returns all positions (B, T, ...). Collective, not recorded
  // by autograd.
  at::Tensor gathered(const at::Tensor& part, int64_t total) const { return start_gathering(part, total)(); }
  // Starts gathered() and returns a function that waits for the result. Collective.
  std::function<at::Tensor()> start_gathering(const at::Tensor& part, int64_t total) const;
  // Reduce-scatters `partial` (B, T, ...): returns this rank's positions of the sum over the ranks.
  // Collective, not recorded by autograd.
  at::Tensor scattered(const at::Tensor& partial) const;

 private:
  // Returns the largest number of positions that a rank holds.
  int64_t most(int64_t total) const;
  // Returns (B, T, ...) in the order of the sequence, from the padded parts `all` (P, B, most, ...).
  at::Tensor in_order(const at::Tensor& all, int64_t total) const;

  Communicator ranks_;
  Order order_;
};

}  // namespace weft::parallel
