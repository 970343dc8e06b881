// Operation slots: what a layer computes, apart from what it owns. A plan replaces the operation and leaves
// the layer, its names and its parameters alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/cut.hpp"

namespace weft::nn {

struct AttentionOptions;
class Embedding;
class Linear;

// What a rank computes with its own part of a linear layer's weight: an adapter adds to it. Whatever crosses
// between ranks is the business of LinearOperation.
class LinearProduct {
 public:
  virtual ~LinearProduct() = default;
  // `x` is the part of the input that this rank multiplies. `weight` and `bias` are the layer's, perhaps with
  // another gradient; `bias` may be undefined.
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) const = 0;
};

// What a linear layer computes.
class LinearOperation {
 public:
  virtual ~LinearOperation() = default;
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x) const = 0;
  // Of a head over a vocabulary, of the logits that forward gave: as nn::cross_entropy_sum.
  virtual at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                       int64_t ignored) const;
};

// What an embedding computes.
class EmbeddingOperation {
 public:
  virtual ~EmbeddingOperation() = default;
  virtual at::Tensor forward(const Embedding& layer, const at::Tensor& ids) const = 0;
};

// What a norm computes with in place of its parameters.
class NormOperation {
 public:
  virtual ~NormOperation() = default;
  virtual at::Tensor parameter(const at::Tensor& parameter) const = 0;
};

// Attention where every rank has some positions of each sequence.
class AttentionOperation {
 public:
  virtual ~AttentionOperation() = default;
  // The positions here, int64 (1 or B, t), of `given` (1 or B, T), or of 0 ... T - 1 if that is undefined. On
  // the device of `like`.
  virtual at::Tensor positions(const at::Tensor& given, const at::Tensor& like) const = 0;
  // As nn::self_attention of q (B, t, H, D) and of k and v (B, s, G, D) over the whole sequences -> (B, t, H
  // D). `mask` is of the whole sequences too, or, where it has heads and queries of its own, that part of it
  // which PositionBiasOperation wants.
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& mask, const AttentionOptions& options) const = 0;
};

// What attention here needs of a bias by position (1, H, T, T), where every rank has some positions of each
// sequence.
class PositionBiasOperation {
 public:
  struct Part {
    int64_t positions = 0;     // T
    std::vector<Run> queries;  // ascending
    Run heads;
  };
  virtual ~PositionBiasOperation() = default;
  virtual Part part(int64_t heads) const = 0;  // of the layer's `heads`
};

// What an Identity computes.
class IdentityOperation {
 public:
  virtual ~IdentityOperation() = default;
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

}  // namespace weft::nn
