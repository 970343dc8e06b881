// Which positions of a sequence each rank holds when the sequence is split over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "axes/segments.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// How a group of ranks splits the positions of a sequence (box/segments.hpp), with the collectives that
// gather and scatter them.
class Positions {
 public:
  using Order = Segments::Order;
  Positions(Communicator ranks, Order order) : ranks_(std::move(ranks)), order_(order) {}

  const Communicator& ranks() const { return ranks_; }
  // Returns the positions of `rank` among `total`, in ascending order.
  std::vector<Run> of(int rank, int64_t total) const { return segments().of(rank, total); }
  // Returns how many positions `rank` holds.
  int64_t count(int rank, int64_t total) const { return segments().count(rank, total); }

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
  Segments segments() const { return {ranks_.size(), order_}; }
  // Returns (B, T, ...) in the order of the sequence, from the padded parts `all` (P, B, most, ...).
  at::Tensor in_order(const at::Tensor& all, int64_t total) const;

  Communicator ranks_;
  Order order_;
};

}  // namespace weft::parallel
