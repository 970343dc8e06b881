#include "weft/nn/decoder_parts.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tolerances.hpp"

namespace weft::test {

namespace {

nn::RotaryDecoderConfig small_config() {
  nn::RotaryDecoderConfig config;
  config.hidden_size = 12;
  config.intermediate_size = 20;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.input_bias = config.mlp_bias = true;
  return config;
}

// Gives all parameters of a layer random values.
void fill(nn::Layer& layer) {
  at::manual_seed(3);
  for (const auto& parameter : layer.named_parameters()) {
    const at::Tensor value = at::randn(parameter.value().sizes(), at::kDouble);
    at::Tensor(parameter.value())
        .unsafeGetTensorImpl()
        ->shallow_copy_from(value.variable_data().getIntrusivePtr());
  }
}

at::Tensor linear(const at::Tensor& x, const nn::Linear& layer) {
  const at::Tensor y = at::matmul(x, layer.weight.t());
  return layer.bias.defined() ? y + layer.bias : y;
}

TEST(DecoderParts, AttendWithGroupedHeadsAndAWindow) {
  const nn::RotaryDecoderConfig config = small_config();
  const auto rotary = std::make_shared<const nn::Rotary>(config.rotary, config.head_dim);
  const at::Tensor x = at::randn({2, 5, 12}, at::kDouble);
  for (const int64_t window : {int64_t{0}, int64_t{2}}) {
    nn::GroupedAttention attention(config, window, rotary, at::kDouble);
    attention.eval();
    fill(attention);
    const auto heads = [&](const nn::Linear& layer, int64_t count) {
      return linear(x, layer).unflatten(-1, {count, -1});
    };
    const at::Tensor q = (*rotary)(heads(*attention.q_proj, 4), {}).transpose(1, 2),
                     k = (*rotary)(heads(*attention.k_proj, 2), {}).repeat_interleave(2, 2).transpose(1, 2),
                     v = heads(*attention.v_proj, 2).repeat_interleave(2, 2).transpose(1, 2);
    at::Tensor hidden = at::ones({5, 5}, at::kBool).triu(1);
    if (window > 0) hidden = hidden.logical_or(at::ones({5, 5}, at::kBool).tril(-window));
    const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(6.0);
    const at::Tensor mixed = at::matmul(scores.masked_fill(hidden, -INFINITY).softmax(-1), v);
    const at::Tensor expected = linear(mixed.transpose(1, 2).flatten(2), *attention.o_proj);
    EXPECT_TRUE(is_near(attention(x, {}, {}), expected, kKernelFp64)) << window;
  }
}

TEST(DecoderParts, GateTheMlp) {
  nn::GatedMlp mlp(small_config(), at::kDouble);
  fill(mlp);
  const at::Tensor x = at::randn({2, 5, 12}, at::kDouble);
  const at::Tensor gate = linear(x, *mlp.gate_proj);
  EXPECT_TRUE(
      is_near(mlp(x), linear(gate * gate.sigmoid() * linear(x, *mlp.up_proj), *mlp.down_proj), kKernelFp64));
  EXPECT_EQ(mlp.kind(), "MLP");
}

}  // namespace

}  // namespace weft::test
