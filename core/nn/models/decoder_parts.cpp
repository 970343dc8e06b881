#include "weft/nn/decoder_parts.hpp"

#include "weft/nn/attention_dropout.hpp"

namespace weft::nn {

GroupedAttention::GroupedAttention(const RotaryDecoderConfig& config, int64_t window, SharedRotary rotary,
                                   at::ScalarType dtype)
    : num_heads(config.num_attention_heads),
      num_key_value_heads(config.num_key_value_heads),
      window_(window),
      scale_(config.attention_scale),
      soft_cap_(config.attention_soft_cap),
      rotary_(std::move(rotary)) {
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias) {
    return register_module(name, std::make_shared<Linear>(in, out, bias, dtype));
  };
  const int64_t keys = num_key_value_heads * config.head_dim;
  q_proj = linear("q_proj", config.hidden_size, num_heads * config.head_dim, config.input_bias);
  k_proj = linear("k_proj", config.hidden_size, keys, config.input_bias);
  v_proj = linear("v_proj", config.hidden_size, keys, config.input_bias);
  o_proj = linear("o_proj", num_heads * config.head_dim, config.hidden_size, config.output_bias);
  if (config.norms_heads) {
    const auto norm = [&] { return std::make_shared<RmsNorm>(config.head_dim, config.rms_norm_eps, dtype); };
    q_norm = register_module("q_norm", norm());
    k_norm = register_module("k_norm", norm());
  }
  attn_dropout =
      register_module("attn_dropout", std::make_shared<AttentionDropout>(config.attention_dropout));
}

at::Tensor GroupedAttention::rotated(const at::Tensor& x, int64_t heads, const std::shared_ptr<RmsNorm>& norm,
                                     const at::Tensor& positions) const {
  const at::Tensor split = x.unflatten(-1, {heads, -1});
  return (*rotary_)(norm ? (*norm)(split) : split, positions);
}

at::Tensor GroupedAttention::operator()(const at::Tensor& x, const at::Tensor& positions,
                                        const at::Tensor& mask) const {
  const std::vector<at::Tensor> mixed = linears(x, {q_proj.get(), k_proj.get(), v_proj.get()});
  const at::Tensor &q = mixed[0], &k = mixed[1], &v = mixed[2];
  AttentionOptions options;
  options.causal = true;
  options.window = window_;
  options.scale = scale_;
  options.soft_cap = soft_cap_;
  if (is_training()) options.dropout = attn_dropout->probability;
  const at::Tensor own = positions_of(x, positions);
  return (*o_proj)(attend(rotated(q, num_heads, q_norm, own), rotated(k, num_key_value_heads, k_norm, own),
                          v.unflatten(-1, {num_key_value_heads, -1}), mask, options));
}

GatedMlp::GatedMlp(const RotaryDecoderConfig& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<Linear>(in, out, config.mlp_bias, dtype));
  };
  gate_proj = linear("gate_proj", config.hidden_size, config.intermediate_size);
  up_proj = linear("up_proj", config.hidden_size, config.intermediate_size);
  down_proj = linear("down_proj", config.intermediate_size, config.hidden_size);
  act_fn = register_module("act_fn", std::make_shared<Activation>(config.hidden_act));
}

at::Tensor GatedMlp::operator()(const at::Tensor& x) const {
  const std::vector<at::Tensor> inner = linears(x, {gate_proj.get(), up_proj.get()});
  return (*down_proj)((*act_fn)(inner[0], inner[1]));
}

}  // namespace weft::nn
