// Attention by Weft's kernel for the host, whose scores never leave the caches (cpu/attention.hpp). B batch,
// T queries, S keys, H heads of queries, G of keys and values, D values of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/layers.hpp"

namespace weft::nn {

struct FusedAttention {
  bool causal;
  int64_t window;  // 0: none
  double scale;
  at::Tensor documents = {};  // AttentionOptions::documents
  double dropout = 0;         // of the probabilities
  int64_t seed = 0;           // of its mask, as in MaskSeed
};

// Returns true if the kernel computes attention of this x (..., D) to scores of the shape (B, H, T, S). On
// the meta device it stands for the fused kernel of any dtype, because estimates count the tensors that a
// fused kernel saves; no other one has the gradient of a mask.
bool has_fused_attention(const at::Tensor& x, const at::Tensor& mask, const AttentionOptions& options,
                         at::IntArrayRef scores);

// The result is (B, T, H D). The mask is in fp32 and added to the scores; it may be undefined.
// qkv: (B, T, 3, H, D).
at::Tensor fused_attention(const at::Tensor& qkv, const at::Tensor& mask, const FusedAttention& setting);
// q: (B, T, H, D), k and v: (B, S, G, D), all with the last dimension contiguous.
at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& mask, const FusedAttention& setting);

}  // namespace weft::nn
