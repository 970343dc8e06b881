#include "block.hpp"

#include <ATen/ops/isinf.h>

namespace weft::t5 {

FeedForward::FeedForward(const T5Config& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, false, dtype));
  };
  if (config.gated) {
    wi_0 = linear("wi_0", config.d_model, config.d_ff);
    wi_1 = linear("wi_1", config.d_model, config.d_ff);
  } else {
    wi = linear("wi", config.d_model, config.d_ff);
  }
  wo = linear("wo", config.d_ff, config.d_model);
  act = register_module("act", std::make_shared<nn::Activation>(config.activation));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.dropout_rate));
}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  const at::Tensor inner = wi ? (*act)((*wi)(x)) : (*act)((*wi_0)(x), (*wi_1)(x));
  return (*wo)((*dropout)(inner));
}

at::Tensor finite(const at::Tensor& x) {
  constexpr double kLarge = 65504 - 1000;
  if (x.scalar_type() != at::kHalf || x.is_meta() || !at::isinf(x).any().item<bool>()) return x;
  return x.clamp(-kLarge, kLarge);
}

Block::Block(const T5Config& config, Side side, bool first, at::ScalarType dtype) {
  const auto layers = register_module("layer", std::make_shared<torch::nn::Module>("layer"));
  const auto add = [&]<class Inner>(const char* name, const std::shared_ptr<Inner>& inner) {
    return layers->register_module(std::to_string(layers->children().size()),
                                   std::make_shared<Residual<Inner>>(name, inner, config, dtype));
  };
  const Direction own = side == Side::kDecoder ? Direction::kCausal : Direction::kBoth;
  self_attention = add("SelfAttention", std::make_shared<Attention>(config, own, first, dtype));
  if (side == Side::kDecoder) {
    source_attention =
        add("EncDecAttention", std::make_shared<Attention>(config, Direction::kSource, false, dtype));
  }
  feed_forward = add("DenseReluDense", std::make_shared<FeedForward>(config, dtype));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& source,
                             const at::Tensor& padding) const {
  at::Tensor hidden = (*self_attention)(x, at::Tensor(), position_bias);
  if (source_attention) hidden = (*source_attention)(hidden, source, padding);
  return (*feed_forward)(hidden);
}

}  // namespace weft::t5
