#include "block.hpp"

#include <cmath>

namespace weft::gpt2 {

namespace {

std::shared_ptr<nn::Linear> conv1d(int64_t in, int64_t out, at::ScalarType dtype) {
  return std::make_shared<nn::Linear>(in, out, true, dtype, nn::Linear::Layout::kInOut);
}

}  // namespace

Attention::Attention(const Gpt2Config& config, int64_t layer, at::ScalarType dtype)
    : num_heads(config.n_head), head_size_(config.n_embd / config.n_head) {
  c_attn = register_module("c_attn", conv1d(config.n_embd, 3 * config.n_embd, dtype));
  c_proj = register_module("c_proj", conv1d(config.n_embd, config.n_embd, dtype));
  attn_dropout = register_module("attn_dropout", std::make_shared<nn::Dropout>(config.attn_pdrop));
  resid_dropout = register_module("resid_dropout", std::make_shared<nn::Dropout>(config.resid_pdrop));
  options_.causal = true;
  options_.upcast = config.reorder_and_upcast_attn;
  options_.scale = config.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size_)) : 1;
  if (config.scale_attn_by_inverse_layer_idx) *options_.scale /= static_cast<double>(layer + 1);
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  nn::AttentionOptions options = options_;
  if (is_training()) options.dropout = attn_dropout->probability;
  options.stream = attn_dropout->stream;
  const at::Tensor mixed = (*c_attn)(x);  // of all positions, also where x has some of them
  const at::Tensor qkv = mixed.view({mixed.size(0), mixed.size(1), 3, num_heads, head_size_});
  return (*c_proj)(attend(qkv, mask, options));
}

Mlp::Mlp(const Gpt2Config& config, at::ScalarType dtype) {
  c_fc = register_module("c_fc", conv1d(config.n_embd, config.n_inner, dtype));
  c_proj = register_module("c_proj", conv1d(config.n_inner, config.n_embd, dtype));
  act = register_module("act", std::make_shared<nn::Activation>(config.activation_function));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.resid_pdrop));
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return (*c_proj)((*act)((*c_fc)(x)));
}

Block::Block(const Gpt2Config& config, int64_t layer, at::ScalarType dtype) {
  const auto norm = [&] {
    return std::make_shared<nn::LayerNorm>(config.n_embd, config.layer_norm_epsilon, dtype);
  };
  ln_1 = register_module("ln_1", norm());
  attn = register_module("attn", std::make_shared<Attention>(config, layer, dtype));
  ln_2 = register_module("ln_2", norm());
  mlp = register_module("mlp", std::make_shared<Mlp>(config, dtype));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const at::Tensor attended = attn->resid_dropout->added(x, (*attn)((*ln_1)(x), mask));
  return mlp->dropout->added(attended, (*mlp)((*ln_2)(attended)));
}

}  // namespace weft::gpt2
