// The stream of the sequence mode split_gather, from which that of ring derives.
#pragma once

#include <functional>
#include <memory>

#include "streams/residual_stream.hpp"

namespace weft::parallel {

// A stream that is split along the sequence (dimension 1) over the tensor ranks (Korthikanti et al., Reducing
// activation recomputation in large transformer models, 2022, section 4.2.2). Entering a region is an
// all-gather, leaving it a reduce-scatter, and the reverse in backward. The gathered input of a layer is not
// kept: backward gathers it again for the gradient of the weight, with `overlaps` while it computes the
// gradient of the input.
class SplitResidualStream : public ResidualStream {
 public:
  SplitResidualStream(const StreamSetting& setting, bool overlaps);
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
