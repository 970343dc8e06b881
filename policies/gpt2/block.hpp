// One transformer block of GPT-2 (Radford et al., Language models are unsupervised multitask learners, 2019):
// attention and MLP, each after a layer norm and added to what came in. Shapes: N rows, T positions, E =
// n_embd, H heads, D = E / H.
#pragma once

#include <memory>

#include "gpt2_config.hpp"
#include "weft/nn/layers.hpp"

namespace weft::gpt2 {

class Attention : public nn::Attention {
 public:
  Attention(const Gpt2Config& config, int64_t layer, at::ScalarType dtype);
  // x: (N, T, E); `mask` broadcasts to (N, H, T, T), or is undefined; causal in any case.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;
  int64_t* attribute(std::string_view name) override { return name == "num_heads" ? &num_heads : nullptr; }

  int64_t num_heads;  // of this part of the layer
  std::shared_ptr<nn::Linear> c_attn, c_proj;
  std::shared_ptr<nn::Dropout> attn_dropout, resid_dropout;  // the latter where the block adds the result

 private:
  int64_t head_size_;
  nn::AttentionOptions options_;
};

class Mlp : public nn::Layer {
 public:
  Mlp(const Gpt2Config& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> c_fc, c_proj;
  std::shared_ptr<nn::Activation> act;
  std::shared_ptr<nn::Dropout> dropout;  // where the block adds the result
};

class Block : public nn::Layer {
 public:
  Block(const Gpt2Config& config, int64_t layer, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "Block"; }

  std::shared_ptr<nn::LayerNorm> ln_1, ln_2;
  std::shared_ptr<Attention> attn;
  std::shared_ptr<Mlp> mlp;
};

}  // namespace weft::gpt2
