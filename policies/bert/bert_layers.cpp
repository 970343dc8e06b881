#include "bert_layers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros_like.h>

#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/unit.hpp"

namespace weft::bert {

std::shared_ptr<nn::LayerNorm> make_norm(const BertConfig& config, at::ScalarType dtype) {
  return std::make_shared<nn::LayerNorm>(config.hidden_size, config.layer_norm_eps, dtype);
}

Embeddings::Embeddings(const BertConfig& config, at::ScalarType dtype) : torch::nn::Module("embeddings") {
  const auto embedding = [&](const char* name, int64_t count, std::optional<int64_t> padding = {}) {
    return register_module(name, std::make_shared<nn::Embedding>(count, config.hidden_size, dtype, padding));
  };
  word_embeddings = embedding("word_embeddings", config.vocab_size, config.padding_row());
  position_embeddings = embedding("position_embeddings", config.max_position_embeddings);
  token_type_embeddings = embedding("token_type_embeddings", config.type_vocab_size);
  LayerNorm = register_module("LayerNorm", make_norm(config, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.hidden_dropout_prob));
}

at::Tensor Embeddings::operator()(const at::Tensor& ids, const at::Tensor& types,
                                  const at::Tensor& positions) const {
  const at::Tensor places =
      positions.defined() ? positions : at::arange(ids.size(1), ids.options()).unsqueeze(0);
  const at::Tensor kinds = types.defined() ? types : at::zeros_like(places);
  const at::Tensor sum =
      (*word_embeddings)(ids) + (*token_type_embeddings)(kinds) + (*position_embeddings)(places);
  return (*dropout)((*LayerNorm)(sum));
}

SelfAttention::SelfAttention(const BertConfig& config, at::ScalarType dtype)
    : num_attention_heads(config.num_attention_heads), causal_(config.is_decoder) {
  const auto linear = [&](const char* name) {
    return register_module(name,
                           std::make_shared<nn::Linear>(config.hidden_size, config.hidden_size, true, dtype));
  };
  query = linear("query");
  key = linear("key");
  value = linear("value");
  dropout =
      register_module("dropout", std::make_shared<nn::AttentionDropout>(config.attention_probs_dropout_prob));
}

at::Tensor SelfAttention::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const std::vector<at::Tensor> mixed = nn::linears(x, {query.get(), key.get(), value.get()});
  const auto heads = [&](size_t i) { return mixed[i].unflatten(-1, {num_attention_heads, -1}); };
  nn::AttentionOptions options;
  options.causal = causal_;
  if (is_training()) options.dropout = dropout->probability;
  return attend(heads(0), heads(1), heads(2), mask, options);
}

Output::Output(const BertConfig& config, int64_t in, at::ScalarType dtype) : torch::nn::Module("output") {
  dense = register_module("dense", std::make_shared<nn::Linear>(in, config.hidden_size, true, dtype));
  LayerNorm = register_module("LayerNorm", make_norm(config, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.hidden_dropout_prob));
}

at::Tensor Output::operator()(const at::Tensor& x, const at::Tensor& residual) const {
  return (*LayerNorm)(dropout->added(residual, (*dense)(x)));
}

Block::Block(const BertConfig& config, at::ScalarType dtype) {
  torch::nn::Module& attention = nn::submodule(*this, "attention");
  self = attention.register_module("self", std::make_shared<SelfAttention>(config, dtype));
  attention_output =
      attention.register_module("output", std::make_shared<Output>(config, config.hidden_size, dtype));
  torch::nn::Module& inner = nn::submodule(*this, "intermediate");
  intermediate = inner.register_module(
      "dense", std::make_shared<nn::Linear>(config.hidden_size, config.intermediate_size, true, dtype));
  intermediate_act_fn =
      inner.register_module("intermediate_act_fn", std::make_shared<nn::Activation>(config.hidden_act));
  output = register_module("output", std::make_shared<Output>(config, config.intermediate_size, dtype));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const at::Tensor attended = (*attention_output)((*self)(x, mask), x);
  return (*output)(intermediate_act_fn->of_linear(*intermediate, attended), attended);
}

}  // namespace weft::bert
