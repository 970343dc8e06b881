#pragma once

#include <mutex>

#include "weft/nn/layers.hpp"

namespace weft::nn {

// The position bias of ALiBi (Press et al., Train short, test long: attention with linear biases enables
// input length extrapolation, arXiv:2108.12409): each head subtracts from the score of a key its distance to
// the query, multiplied by a slope that belongs to the head. As in Hugging Face's models, the bias of a key
// is the slope times the position of the key, which under a causal mask gives the same probabilities. It has
// no parameters.
class Alibi : public RelativeAttentionBias {
 public:
  explicit Alibi(int64_t num_heads);
  // Returns the bias of the heads that attend here to all T keys, plus `padding`: (1 or N, heads, 1, T) in
  // the dtype of `padding`, or else of x. x: hidden states (N, t, C); padding: additive mask (N, 1, 1, T) or
  // undefined. Positions count the keys that are not padding. In place of padding there may be document
  // begins (masks.hpp): positions then begin again with each document, and are not masked.
  // With a KeyValueCache the keys are all of its positions, and it has the padding of earlier ones.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& padding) const;
  std::string kind() const override { return "Alibi"; }

  Run heads;  // of all heads, those of this rank's attention; set by a plan

 private:
  at::Tensor slopes_on(c10::Device place) const;

  const int64_t num_heads_;
  mutable std::mutex mutex_;
  mutable at::Tensor slopes_;  // on the device that was asked for last
};

// Returns the slopes of ALiBi, (num_heads) in fp32: powers of 2^(-8/n) for the largest power of two n that is
// at most num_heads, then every other power of 2^(-4/n).
at::Tensor alibi_slopes(int64_t num_heads);

}  // namespace weft::nn
