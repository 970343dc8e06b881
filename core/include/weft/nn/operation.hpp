// Operation slots: what a layer computes, apart from what it owns. A plan replaces the operation and leaves
// the layer, its names and its parameters alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace weft::nn {

struct AttentionOptions;
class Embedding;
class Linear;

class LinearOperation {
 public:
  virtual ~LinearOperation() = default;
  virtual std::string id() const = 0;  // "weft.linear/1"
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x) const = 0;
  // Of a head over a vocabulary, of the logits that forward gave: as nn::cross_entropy_sum.
  virtual at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                       int64_t ignored) const;
};

class EmbeddingOperation {
 public:
  virtual ~EmbeddingOperation() = default;
  virtual std::string id() const = 0;  // "weft.embedding/1"
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
  virtual std::string id() const = 0;
  // The positions here, int64 (1 or B, t), of `given` (1 or B, T), or of 0 ... T - 1 if that is undefined. On
  // the device of `like`.
  virtual at::Tensor positions(const at::Tensor& given, const at::Tensor& like) const = 0;
  // As nn::self_attention of q (B, t, H, D) and of k and v (B, t, G, D) over the whole sequences, which
  // `mask` knows -> (B, t, H D).
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& mask, const AttentionOptions& options) const = 0;
};

class IdentityOperation {
 public:
  virtual ~IdentityOperation() = default;
  virtual std::string id() const = 0;
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

}  // namespace weft::nn
