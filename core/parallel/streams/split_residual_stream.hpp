// The class behind split_residual_stream(), from which ring_residual_stream() derives.
#pragma once

#include <functional>
#include <memory>

#include "streams/residual_stream.hpp"

namespace weft::parallel {

class SplitResidualStream : public ResidualStream {
 public:
  SplitResidualStream(std::string sequence, Communicator ranks, bool overlaps);
  at::Tensor leave(const at::Tensor& partial) override;
  at::Tensor enter(const at::Tensor& x) override;
  std::shared_ptr<RegionInput> input(int64_t readers) override;
  // Sums the gradient over the tensor ranks, because each applies the parameter to its own positions.
  at::Tensor parameter(const at::Tensor& parameter) override;
  at::Tensor split(const at::Tensor& x) override;

  // Gathers `x` (B, t, in) into `whole` (B, T, in) and returns nn::linear of it. Collective, not recorded by
  // autograd.
  virtual at::Tensor gather_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                    nn::Linear::Layout layout, at::Tensor& whole) const;
  // Gathers `x` into `whole` and returns the gradient of the weight of that product. `dy` (B, T, out) is the
  // gradient of the product, `total` is T. Collective, not recorded by autograd.
  virtual at::Tensor gather_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                            nn::Linear::Layout layout, int64_t total,
                                            at::Tensor& whole) const;
  // Starts to gather `x` and returns a function that waits for it; null if the stream does not overlap.
  virtual std::function<at::Tensor()> start_gathering(const at::Tensor& x, int64_t total) const;

 protected:
  bool splits_regions() const override { return false; }
  const Communicator ranks_;

 private:
  const bool overlaps_;
};

}  // namespace weft::parallel
