#include "block.hpp"

#include "weft/nn/batch_fields.hpp"

namespace weft::llama {

Attention::Attention(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary,
                     at::ScalarType dtype)
    : num_heads(config.num_attention_heads),
      num_key_value_heads(config.num_key_value_heads),
      rotary_(std::move(rotary)) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.attention_bias, dtype));
  };
  q_proj = linear("q_proj", config.hidden_size, num_heads * config.head_dim);
  k_proj = linear("k_proj", config.hidden_size, num_key_value_heads * config.head_dim);
  v_proj = linear("v_proj", config.hidden_size, num_key_value_heads * config.head_dim);
  o_proj = linear("o_proj", num_heads * config.head_dim, config.hidden_size);
  attn_dropout = register_module("attn_dropout", std::make_shared<nn::Dropout>(config.attention_dropout));
}

int64_t* Attention::attribute(std::string_view name) {
  if (name == "num_heads") return &num_heads;
  return name == "num_key_value_heads" ? &num_key_value_heads : nullptr;
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& positions,
                                 const at::Tensor& mask) const {
  const at::Tensor q = (*q_proj)(x).unflatten(-1, {num_heads, -1});
  const at::Tensor k = (*k_proj)(x).unflatten(-1, {num_key_value_heads, -1});
  const at::Tensor v = (*v_proj)(x).unflatten(-1, {num_key_value_heads, -1});
  nn::AttentionOptions options;
  options.causal = true;
  if (is_training()) options.dropout = attn_dropout->probability;
  options.stream = attn_dropout->stream;
  const at::Tensor own = positions_of(x, positions);
  return (*o_proj)(attend((*rotary_)(q, own), (*rotary_)(k, own), v, mask, options));
}

Mlp::Mlp(const LlamaConfig& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.mlp_bias, dtype));
  };
  gate_proj = linear("gate_proj", config.hidden_size, config.intermediate_size);
  up_proj = linear("up_proj", config.hidden_size, config.intermediate_size);
  down_proj = linear("down_proj", config.intermediate_size, config.hidden_size);
  act_fn = register_module("act_fn", std::make_shared<nn::Activation>(config.hidden_act));
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return (*down_proj)((*act_fn)((*gate_proj)(x), (*up_proj)(x)));
}

Block::Block(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype) {
  const auto norm = [&] {
    return std::make_shared<nn::RmsNorm>(config.hidden_size, config.rms_norm_eps, dtype);
  };
  self_attn = register_module("self_attn", std::make_shared<Attention>(config, std::move(rotary), dtype));
  mlp = register_module("mlp", std::make_shared<Mlp>(config, dtype));
  input_layernorm = register_module("input_layernorm", norm());
  post_attention_layernorm = register_module("post_attention_layernorm", norm());
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const {
  const at::Tensor attended = x + (*self_attn)((*input_layernorm)(x), positions, mask);
  return attended + (*mlp)((*post_attention_layernorm)(attended));
}

void BlockUnit::forward(State& state) {
  const auto field = [&](const char* name) {
    const at::Tensor* found = state.find(name);
    return found ? *found : at::Tensor();
  };
  state.set(nn::kHidden, block_(state.at(nn::kHidden), field(nn::kPositions), field(nn::kAttentionMask)));
}

}  // namespace weft::llama
