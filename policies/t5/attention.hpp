// Attention of T5 (Raffel et al., Exploring the limits of transfer learning with a unified text-to-text
// transformer, 2020): scores are not scaled; a number learned for each head and each distance is added to
// them. Shapes: N rows, T positions, S positions of the source, E = d_model, H heads, D = d_kv.
#pragma once

#include <memory>

#include "t5_config.hpp"
#include "weft/nn/layers.hpp"

namespace weft::t5 {

// Distances fall into buckets: one for each small distance, then one for each range, every one longer than
// the one before, and one for all from the largest distance on.
struct Buckets {
  int64_t count;             // at least 4
  int64_t largest_distance;  // more than count / 2
  bool bidirectional;  // half of the buckets for positions behind, half for those ahead; otherwise those
                       // ahead count as distance 0
};
// distances: int64, the position attended to minus the one that attends -> of the same shape, 0 to count - 1.
at::Tensor bucket_of(const at::Tensor& distances, const Buckets& buckets);

// The numbers by bucket and head. A plan may split the heads and share out the positions.
class RelativeAttentionBias : public nn::RelativeAttentionBias {
 public:
  RelativeAttentionBias(const T5Config& config, bool bidirectional, at::ScalarType dtype);
  // What attention needs here, where x has `positions`: some heads and queries, all keys.
  Part part(int64_t positions) const { return nn::RelativeAttentionBias::part(positions, weight.size(1)); }
  at::Tensor operator()(const Part& part) const;  // -> (1, heads, queries, T)

  at::Tensor weight;  // (buckets, H)

 private:
  const Buckets buckets_;
};

// What a position may attend to.
enum class Direction {
  kBoth,    // self-attention of an encoder
  kCausal,  // self-attention of a decoder
  kSource,  // of a decoder over its encoder's output
};

class Attention : public nn::Attention {
 public:
  // Self-attention of the first block has the bias of all blocks of its stack.
  Attention(const T5Config& config, Direction direction, bool has_bias, at::ScalarType dtype);

  // x: (N, T, E); source: (N, S, E), undefined for self-attention; `mask` is added to the scores, broadcasts
  // to (N, H, T, S), may be undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& source, const at::Tensor& mask) const;
  // What self-attention of every block of the stack adds to its scores: the bias, and the lowest number where
  // a position may not attend to another. padding: additive, (N, 1, 1, T), or undefined -> (N, H, T, T), with
  // 1 for N where there is no padding; where sequences are split, what is needed here of it. Only where it
  // has the bias.
  at::Tensor position_bias(int64_t positions, const at::Tensor& padding) const;

  int64_t* attribute(std::string_view name) override { return name == "n_heads" ? &n_heads : nullptr; }

  int64_t n_heads;  // of this part of the layer
  std::shared_ptr<nn::Linear> q, k, v, o;
  std::shared_ptr<RelativeAttentionBias> relative_attention_bias;  // may be null
  std::shared_ptr<nn::Dropout> dropout;                            // of the probabilities

 private:
  const int64_t head_size_;
  const bool causal_;
};

}  // namespace weft::t5
