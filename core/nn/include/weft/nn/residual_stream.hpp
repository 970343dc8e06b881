// The residual stream, the activations that pass from one region to the next, as operations see it. In a
// region the ranks of the tensor axis compute different features. The stream decides whether every rank has
// all positions of a sequence or a part of them, and how activations enter and leave a region: an operation
// that uses it runs in every sequence mode.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "weft/nn/layers.hpp"

namespace weft::nn {

// Computes the layer's product of `x` with this weight and bias: the one in its slot `product` if there is
// one, linear() otherwise. `bias` may be undefined.
at::Tensor product(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias);

// Computes several linear layers that read the same tensor of the residual stream (queries, keys and values,
// for example), so that the tensor enters the region once for all of them.
class RegionInput {
 public:
  virtual ~RegionInput() = default;
  // Lets `x` enter the region and returns the layer's product (nn::product) with it. `weight` and `bias` are
  // this rank's shards of the layer's parameters. If layers of one unit pass the same `x` in consecutive
  // calls, it enters once.
  virtual at::Tensor linear(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) = 0;
};

// All functions are called inside a unit, in forward, on every rank of the axes alike. What they send is in
// the plan's traffic: declare it in Operation::transfers.
class ResidualStream {
 public:
  virtual ~ResidualStream() = default;
  // Enters a region: returns `x` with all positions that the region works on. In backward the gradient is
  // summed over the tensor ranks (Transfer::Kind::kEnter).
  virtual at::Tensor enter(const at::Tensor& x) = 0;
  // Returns an object that lets `readers` linear layers enter the region together (kEnterLinear).
  virtual std::shared_ptr<RegionInput> input(int64_t readers) = 0;
  // Leaves a region: sums `partial` over the tensor ranks and returns this rank's part of the residual
  // stream. Consumes `partial` (kLeave).
  virtual at::Tensor leave(const at::Tensor& partial) = 0;
  // Computes the layer's product (nn::product) of `x` and its weight, without the bias, and leaves the region
  // with it (kLeaveLinear).
  virtual at::Tensor leave_product(const Linear& layer, const at::Tensor& x) = 0;
  // Returns `parameter`, the replicated parameter of a layer that works on the residual stream. If each
  // tensor rank sees a part of the positions, backward sums its gradient over them (kOwnGradients).
  virtual at::Tensor parameter(const at::Tensor& parameter) = 0;

  // Returns true if this rank holds a part of the positions.
  virtual bool is_split() const = 0;
  // Returns the positions of `by_position` (B, T, ...) that the residual stream has on this rank.
  virtual at::Tensor own(const at::Tensor& by_position) const = 0;
  // Returns the positions of `by_position` (B, T, ...) that a region works on on this rank.
  virtual at::Tensor inside(const at::Tensor& by_position) const = 0;
};

}  // namespace weft::nn
