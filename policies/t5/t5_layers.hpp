// The layers of T5 (Raffel et al., Exploring the limits of transfer learning with a unified text-to-text
// transformer, 2020): attention with unscaled scores and a learned relative position bias, a feed-forward
// layer, and pre-norm blocks of both. Shapes: N rows, T positions, S positions of the encoder's output,
// E = d_model, H heads, D = d_kv.
#pragma once

#include <memory>

#include "t5_config.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"

namespace weft::t5 {

// The buckets of distances between two positions: one bucket for each small distance, then ranges of growing
// length, and one bucket for all distances from `largest_distance` on.
struct Buckets {
  int64_t count;             // at least 4
  int64_t largest_distance;  // greater than count / 2
  // Whether half of the buckets are for positions ahead. Otherwise positions ahead count as distance 0.
  bool bidirectional;
};
// Returns the bucket of each distance, 0 to count - 1. distances: int64, key position minus query position.
at::Tensor bucket_of(const at::Tensor& distances, const Buckets& buckets);

// The relative position bias: a learned value for each bucket and head. A plan can split the heads, the
// positions, or both.
class RelativeAttentionBias : public nn::RelativeAttentionBias {
 public:
  RelativeAttentionBias(const T5Config& config, bool bidirectional, at::ScalarType dtype);
  // Returns the heads and queries that attention needs here, where x has `positions` positions.
  Part part(int64_t positions) const { return nn::RelativeAttentionBias::part(positions, weight.size(1)); }
  // Returns `given`, the additive mask of padding, or that of the tokens before this forward.
  static at::Tensor all_padding(const at::Tensor& given, const at::Tensor& like) {
    return cached_padding(given, like);
  }
  // Returns the bias of these heads and queries for all keys: (1, heads, queries, T).
  at::Tensor operator()(const Part& part) const;

  at::Tensor weight;  // (buckets, H)

 private:
  const Buckets buckets_;
};

// Which positions a position may attend to.
enum class Direction {
  kBoth,    // all: self-attention of an encoder
  kCausal,  // itself and those before it: self-attention of a decoder
  kSource,  // the encoder's output: cross-attention of a decoder
};

class Attention : public nn::Attention {
 public:
  // `has_bias` is true for self-attention of the first block, whose bias all blocks of the stack use.
  Attention(const T5Config& config, Direction direction, bool has_bias, at::ScalarType dtype);

  // Computes attention. x: (N, T, E) -> (N, T, E); source: (N, S, E), or undefined for self-attention; `mask`
  // is added to the scores, broadcasts to (N, H, T, S), and may be undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& source, const at::Tensor& mask) const;
  // Returns the sum of the position bias and the additive masks, which self-attention of every block of the
  // stack adds to its scores: (N, H, T, T), or (1, H, T, T) without padding. If sequences are split, returns
  // the part that is needed here. padding: additive, (N, 1, 1, T), or undefined. Requires
  // `has_bias`. With a KeyValueCache, T counts its positions too where it is that of the keys.
  at::Tensor position_bias(int64_t positions, const at::Tensor& padding) const;

  std::vector<std::pair<std::string_view, int64_t*>> attributes() override { return {{"n_heads", &n_heads}}; }

  int64_t n_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> q, k, v, o;
  std::shared_ptr<RelativeAttentionBias> relative_attention_bias;  // may be null
  std::shared_ptr<nn::Dropout> dropout;                            // of the probabilities

 private:
  const int64_t head_size_;
  const bool causal_;
};

enum class Side { kEncoder, kDecoder };

// Returns the dtype of the residual stream and of the feed-forward's output projection. In fp16 it is fp32,
// as transformers keeps the projection, because their values can exceed 65504; the stream is what it is added
// to.
at::ScalarType residual_dtype(at::ScalarType dtype);

class FeedForward : public nn::Layer {
 public:
  FeedForward(const T5Config& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> wi;          // if not gated: act(wi x)
  std::shared_ptr<nn::Linear> wi_0, wi_1;  // if gated: act(wi_0 x) * wi_1 x
  std::shared_ptr<nn::Linear> wo;
  std::shared_ptr<nn::Activation> act;
  std::shared_ptr<nn::Dropout> dropout;
};

// Computes x + dropout(inner(layer_norm(x))), as every layer of a block does.
template <class Inner>
class Residual : public torch::nn::Module {
 public:
  Residual(const char* name, std::shared_ptr<Inner> inner, const T5Config& config, at::ScalarType dtype) {
    this->inner = register_module(name, std::move(inner));
    layer_norm = register_module(
        "layer_norm", std::make_shared<nn::RmsNorm>(config.d_model, config.layer_norm_epsilon, dtype));
    dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.dropout_rate));
  }
  template <class... Others>
  at::Tensor operator()(const at::Tensor& x, const Others&... others) const {
    const nn::Branch branch = layer_norm->branch(x);
    return dropout->added(branch.kept, (*inner)(branch.normed, others...));
  }

  std::shared_ptr<Inner> inner;
  std::shared_ptr<nn::RmsNorm> layer_norm;
  std::shared_ptr<nn::Dropout> dropout;
};

class Block : public nn::Layer {
 public:
  // The first block of a stack has the relative position bias of all its blocks.
  Block(const T5Config& config, Side side, bool first, at::ScalarType dtype);
  // x: (N, T, E); position_bias: what Attention::position_bias() of the first block returned. For a decoder,
  // source: (N, S, E), and padding: its additive mask (N, 1, 1, S), or undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& source = {},
                        const at::Tensor& padding = {}) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Residual<Attention>> self_attention;
  std::shared_ptr<Residual<Attention>> source_attention;  // null in an encoder
  std::shared_ptr<Residual<FeedForward>> feed_forward;
};

}  // namespace weft::t5
