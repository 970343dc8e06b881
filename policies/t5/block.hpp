// One block of a T5 encoder or decoder: self-attention, in a decoder attention over the encoder's output, and
// a feed-forward layer, each after a norm and added to what came in. Shapes as in attention.hpp.
#pragma once

#include <memory>

#include "attention.hpp"
#include "weft/nn/rms_norm.hpp"

namespace weft::t5 {

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
