// The layers of T5 (Raffel et al., Exploring the limits of transfer learning with a unified text-to-text
// transformer, 2020): attention whose scores are not scaled and get a number learned for each head and each
// distance, a feed-forward layer, and blocks of them, each layer after a norm and added to what came in.
// Shapes: N rows, T positions, S positions of the source, E = d_model, H heads, D = d_kv.
#pragma once

#include <memory>

#include "t5_config.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"

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

enum class Side { kEncoder, kDecoder };

class FeedForward : public nn::Layer {
 public:
  FeedForward(const T5Config& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> wi;          // of one that is not gated
  std::shared_ptr<nn::Linear> wi_0, wi_1;  // of a gated one: act(wi_0 x) * wi_1 x
  std::shared_ptr<nn::Linear> wo;
  std::shared_ptr<nn::Activation> act;
  std::shared_ptr<nn::Dropout> dropout;
};

// fp16 ends at 65504, and T5 goes there: infinite numbers become large ones, as in transformers. Other types
// stay as they are.
at::Tensor finite(const at::Tensor& x);

// x + dropout(inner(layer_norm(x))): the form of every layer of a block.
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
    return finite(dropout->added(x, (*inner)((*layer_norm)(x), others...)));
  }

  std::shared_ptr<Inner> inner;
  std::shared_ptr<nn::RmsNorm> layer_norm;
  std::shared_ptr<nn::Dropout> dropout;
};

class Block : public nn::Layer {
 public:
  // The first block of a stack has the relative bias of all.
  Block(const T5Config& config, Side side, bool first, at::ScalarType dtype);
  // x: (N, T, E); position_bias as the first block's self-attention makes it; of a decoder, source (N, S, E)
  // and its padding: additive, (N, 1, 1, S), or undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& source = {},
                        const at::Tensor& padding = {}) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Residual<Attention>> self_attention;
  std::shared_ptr<Residual<Attention>> source_attention;  // null in an encoder
  std::shared_ptr<Residual<FeedForward>> feed_forward;
};

}  // namespace weft::t5
