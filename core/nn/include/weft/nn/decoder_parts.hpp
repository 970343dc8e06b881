// The layers of a block of make_rotary_decoder(), for families that put them together otherwise: with
// parallel branches, other norms, or another MLP. Their children have the names that Hugging Face gives them
// in most decoders, so shard policies for make_rotary_decoder() fit them. Shapes: N rows, T positions,
// C = hidden_size, H query heads, G key and value heads, D = head_dim.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/rotary.hpp"
#include "weft/nn/rotary_decoder.hpp"

namespace weft::nn {

// The rotation that all layers of a model share.
using SharedRotary = std::shared_ptr<const Rotary>;

// Grouped-query attention with rotary position embeddings.
class GroupedAttention final : public Attention {
 public:
  // `window`: AttentionOptions::window. Uses the sizes, biases, head norms, dropout, attention scale
  // and soft cap of `config`.
  GroupedAttention(const RotaryDecoderConfig& config, int64_t window, SharedRotary rotary,
                   at::ScalarType dtype);
  // Computes causal attention. x: (N, T, C) -> (N, T, C); `positions`: (1, T) or (N, T), or undefined for
  // 0 ... T - 1; `mask` broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}, {"num_key_value_heads", &num_key_value_heads}};
  }

  int64_t num_heads, num_key_value_heads;  // heads of this shard of the layer
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, o_proj;
  std::shared_ptr<RmsNorm> q_norm, k_norm;  // of each head; may be null
  std::shared_ptr<Dropout> attn_dropout;    // of the probabilities

 private:
  // Returns the heads of queries or keys, normalized and rotated. x: (N, T, heads * D) -> (N, T, heads, D)
  at::Tensor rotated(const at::Tensor& x, int64_t heads, const std::shared_ptr<RmsNorm>& norm,
                     const at::Tensor& positions) const;

  const int64_t window_;
  const std::optional<double> scale_;
  const double soft_cap_;
  const SharedRotary rotary_;
};

// A gated MLP: down_proj(act(gate_proj(x)) * up_proj(x)).
class GatedMlp final : public Layer {
 public:
  GatedMlp(const RotaryDecoderConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<Linear> gate_proj, up_proj, down_proj;
  std::shared_ptr<Activation> act_fn;
};

}  // namespace weft::nn
