// One transformer block of Llama (Touvron et al., LLaMA: open and efficient foundation language models,
// arXiv:2302.13971): attention with rotary positions and grouped queries, and a gated MLP, each after an RMS
// norm and added to what came in. Shapes: N rows, T positions, C = hidden_size, H heads of queries, G of keys
// and values, D = head_dim.
#pragma once

#include <memory>

#include "llama_config.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/rotary.hpp"
#include "weft/nn/unit.hpp"

namespace weft::llama {

class Attention : public nn::Attention {
 public:
  Attention(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // x: (N, T, C); `positions`: (1, T) or (N, T), or undefined for 0 ... T - 1; `mask` broadcasts to (N, H, T,
  // T), or is undefined; causal in any case.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  int64_t* attribute(std::string_view name) override;

  int64_t num_heads, num_key_value_heads;  // of this part of the layer
  std::shared_ptr<nn::Linear> q_proj, k_proj, v_proj, o_proj;
  std::shared_ptr<nn::Dropout> attn_dropout;  // of the probabilities

 private:
  const std::shared_ptr<const nn::Rotary> rotary_;
};

class Mlp : public nn::Layer {
 public:
  Mlp(const LlamaConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> gate_proj, up_proj, down_proj;
  std::shared_ptr<nn::Activation> act_fn;
};

class Block : public nn::Layer {
 public:
  Block(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // As Attention's: (N, T, C) -> (N, T, C)
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Attention> self_attn;
  std::shared_ptr<Mlp> mlp;
  std::shared_ptr<nn::RmsNorm> input_layernorm, post_attention_layernorm;
};

class BlockUnit final : public nn::Unit {
 public:
  BlockUnit(std::string name, Block& block) : Unit(std::move(name)), block_(uses(block)) {}
  void forward(State& state) override;

 private:
  const Block& block_;
};

}  // namespace weft::llama
