// The borders of a tensor-parallel region where the activations between regions are split along the sequence
// (dimension 1) over the same ranks: T positions in parts that differ by at most one. Korthikanti et al.,
// Reducing activation recomputation in large transformer models, 2022, section 4.2.2.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "weft/nn/layers.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// The sequence that the parts now belong to: known where it is split, which is where a forward begins. A unit
// that is recomputed has that of its own forward (AppliedPlan::sequence_length).
struct SequenceSplit {
  Communicator ranks;
  int64_t total = 0;  // positions
};

// This rank's positions of the whole (B, T, ...). No gradient of the others' reaches anything.
at::Tensor own_positions(const at::Tensor& whole, const Communicator& ranks);

// Out of a region: this rank's positions of the sum of partial results (one reduce-scatter); the gradient is
// gathered.
at::Tensor scatter_sum(const at::Tensor& partial, const Communicator& ranks);

// To where every rank goes on alike with all positions (one all-gather); of the gradient, the same on every
// rank, each takes its positions.
at::Tensor gather_positions(const at::Tensor& part, const SequenceSplit& split);

// Into a region: all positions (one all-gather), which whoever reads them keeps; the gradient, summed over
// the ranks, is scattered.
at::Tensor gather_into_region(const at::Tensor& part, const SequenceSplit& split);

// Into a region: all positions for some layers that read them (one all-gather). No rank keeps them: for the
// gradients of the weights they are gathered again, once for all of the layers; the input's gradient, summed
// over the layers and ranks, is scattered.
class GatheredInput {
 public:
  GatheredInput(std::shared_ptr<const SequenceSplit> split, int64_t readers);
  ~GatheredInput();
  // `weight` and `bias` are this rank's part of the layer's.
  at::Tensor linear(const at::Tensor& part, const at::Tensor& weight, const at::Tensor& bias,
                    nn::Linear::Layout layout);

 private:
  struct Again;
  class Product;
  std::shared_ptr<const SequenceSplit> split_;
  const int64_t readers_;
  int64_t left_ = 0;  // readers to come
  at::Tensor outside_, inside_;
  std::shared_ptr<Again> again_;
};

}  // namespace weft::parallel
