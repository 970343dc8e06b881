// The stream of split_residual_stream(), open to those that move its parts in another way.
#pragma once

#include <functional>
#include <memory>

#include "parallel/residual_stream.hpp"

namespace weft::parallel {

class SplitResidualStream : public ResidualStream {
 public:
  SplitResidualStream(std::string sequence, Communicator ranks, bool overlaps);
  at::Tensor leave(const at::Tensor& partial) override;
  at::Tensor enter(const at::Tensor& x) override;
  std::shared_ptr<RegionInput> input(int64_t readers) override;
  // Every rank applies it to its own positions.
  at::Tensor parameter(const at::Tensor& parameter) override;
  at::Tensor inside(const at::Tensor& by_position) const override { return by_position; }

  // nn::linear of all positions out of `x`, this rank's; `whole` gets all of x. No graph.
  virtual at::Tensor gather_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                    nn::Linear::Layout layout, at::Tensor& whole) const;
  // The gradient of its weight, of `dy` of all positions; `total` is their number.
  virtual at::Tensor gather_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                            nn::Linear::Layout layout, int64_t total,
                                            at::Tensor& whole) const;
  // Begins what the latter gathers, where it can be under way before it is needed; null elsewhere.
  virtual std::function<at::Tensor()> start_gathering(const at::Tensor& x, int64_t total) const;

 protected:
  const Communicator ranks_;

 private:
  const bool overlaps_;
};

}  // namespace weft::parallel
