// The layers of BERT (Devlin et al., BERT: pre-training of deep bidirectional transformers for language
// understanding, arXiv:1810.04805): embeddings of tokens, positions and token types, and blocks of attention
// and MLP with norms after each. Shapes: N rows, T positions, E = hidden_size, H heads.
#pragma once

#include <memory>

#include "bert_config.hpp"
#include "weft/nn/layers.hpp"

namespace weft::bert {

class Embeddings : public torch::nn::Module {
 public:
  Embeddings(const BertConfig& config, at::ScalarType dtype);
  // ids: (N, T) int64; types and positions: (N, T) or (1, T), or undefined for zeros and 0 ... T - 1
  // -> (N, T, E)
  at::Tensor operator()(const at::Tensor& ids, const at::Tensor& types, const at::Tensor& positions) const;

  std::shared_ptr<nn::Embedding> word_embeddings, position_embeddings, token_type_embeddings;
  std::shared_ptr<nn::LayerNorm> LayerNorm;
  std::shared_ptr<nn::Dropout> dropout;
};

class SelfAttention : public nn::Attention {
 public:
  SelfAttention(const BertConfig& config, at::ScalarType dtype);
  // Computes attention, causal in a decoder. x: (N, T, E) -> the channels of this shard's heads; `mask`
  // broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_attention_heads", &num_attention_heads}};
  }

  int64_t num_attention_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> query, key, value;
  std::shared_ptr<nn::Dropout> dropout;  // of the probabilities

 private:
  const bool causal_;
};

// Computes LayerNorm(residual + dropout(dense(x))), which ends both halves of a block.
class Output : public torch::nn::Module {
 public:
  Output(const BertConfig& config, int64_t in, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual) const;

  std::shared_ptr<nn::Linear> dense;
  std::shared_ptr<nn::LayerNorm> LayerNorm;
  std::shared_ptr<nn::Dropout> dropout;
};

class Block : public nn::Layer {
 public:
  Block(const BertConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "Block"; }

  std::shared_ptr<SelfAttention> self;
  std::shared_ptr<nn::Linear> intermediate;
  std::shared_ptr<nn::Activation> intermediate_act_fn;
  std::shared_ptr<Output> attention_output, output;
};

std::shared_ptr<nn::LayerNorm> make_norm(const BertConfig& config, at::ScalarType dtype);

}  // namespace weft::bert
