// The slots of layers. A layer owns parameters and names; the operation in its slot computes. A plan replaces
// the operation and leaves the layer alone. Shapes: B batch, T and S positions of a sequence, t this rank's
// positions, H and G heads, D channels of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "weft/cut.hpp"

namespace weft::nn {

struct AttentionOptions;
class Embedding;
class Linear;

// The local matrix product of a linear layer, which an adapter replaces. It never communicates;
// LinearOperation does.
class LinearProduct {
 public:
  virtual ~LinearProduct() = default;
  // Returns the product of `x`, the part of the input that this rank multiplies, with `weight`, plus `bias`
  // if it is defined. `weight` and `bias` have the values of the layer's parameters and may have other
  // gradient functions.
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) const = 0;
};

// The operation of a linear layer.
class LinearOperation {
 public:
  virtual ~LinearOperation() = default;
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x) const = 0;
  // What a layer does that is the head of a vocabulary. own_labels() returns the labels of the positions for
  // which forward() gives this rank logits, of those of the whole sequences, (..., T). cross_entropy_sum()
  // returns nn::cross_entropy_sum of such logits, or of some of their rows, and the labels of these;
  // `gradient` see there.
  virtual at::Tensor own_labels(const at::Tensor& labels) const { return labels; }
  virtual at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& own_labels,
                                       int64_t ignored, std::optional<double> gradient) const;
  // Returns for the same logits how many labels have the largest logit of their row, counted for the same
  // rows and as often as cross_entropy_sum() sums them. Collective where it is.
  virtual double count_right(const at::Tensor& logits, const at::Tensor& own_labels, int64_t ignored) const;
};

// The operation of an embedding.
class EmbeddingOperation {
 public:
  virtual ~EmbeddingOperation() = default;
  virtual at::Tensor forward(const Embedding& layer, const at::Tensor& ids) const = 0;
};

// The operation of a norm: returns the tensor that the norm uses in place of each of its parameters.
class NormOperation {
 public:
  virtual ~NormOperation() = default;
  virtual at::Tensor parameter(const at::Tensor& parameter) const = 0;
};

// The operation of attention when each rank holds a part of the positions.
class AttentionOperation {
 public:
  virtual ~AttentionOperation() = default;
  // Returns this rank's part (1 or B, t) of the position ids `given` (1 or B, T), int64, or of 0 ... T - 1 if
  // `given` is undefined. The result is on the device of `like`.
  virtual at::Tensor positions(const at::Tensor& given, const at::Tensor& like) const = 0;
  // Returns nn::self_attention of this rank's queries over the whole sequences. q: (B, t, H, D), k and v:
  // (B, s, G, D) -> (B, t, H D). `mask` covers the whole sequences, or, if it has heads and queries of its
  // own, the part that PositionBiasOperation selects. Document begins, which cover the whole sequences too,
  // are in `options` alone.
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& mask, const AttentionOptions& options) const = 0;
};

// Selects the part of a position bias (1, H, T, T) that attention reads on this rank.
class PositionBiasOperation {
 public:
  struct Part {
    int64_t positions = 0;     // T, of the whole sequence
    std::vector<Run> queries;  // ascending
    Run heads;
  };
  virtual ~PositionBiasOperation() = default;
  // `heads` is the number of heads of the layer.
  virtual Part part(int64_t heads) const = 0;
};

// The operation of an Identity.
class IdentityOperation {
 public:
  virtual ~IdentityOperation() = default;
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

}  // namespace weft::nn
