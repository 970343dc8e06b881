#include "whisper_layers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/empty.h>

#include "weft/nn/attention_dropout.hpp"

namespace weft::whisper {

Convolution::Convolution(int64_t in, int64_t out, int64_t stride, at::ScalarType dtype) : stride_(stride) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({out, in, 3}, options));
  bias = register_parameter("bias", at::empty({out}, options));
}

at::Tensor Convolution::operator()(const at::Tensor& x) const {
  return at::conv1d(x, weight, bias, stride_, /*padding=*/1);
}

Attention::Attention(const WhisperConfig& config, int64_t heads, bool causal, at::ScalarType dtype)
    : num_heads(heads), causal_(causal) {
  const auto linear = [&](const char* name, bool bias) {
    return register_module(name, std::make_shared<nn::Linear>(config.d_model, config.d_model, bias, dtype));
  };
  k_proj = linear("k_proj", false);
  v_proj = linear("v_proj", true);
  q_proj = linear("q_proj", true);
  out_proj = linear("out_proj", true);
  attn_dropout =
      register_module("attn_dropout", std::make_shared<nn::AttentionDropout>(config.attention_dropout));
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& source,
                                 const at::Tensor& mask) const {
  const auto split = [&](const at::Tensor& all) { return all.unflatten(-1, {num_heads, -1}); };
  nn::AttentionOptions options;
  options.causal = causal_;
  if (is_training()) options.dropout = attn_dropout->probability;
  if (source.defined()) {
    const auto keys_and_values = [&] {
      const std::vector<at::Tensor> both = nn::linears(source, {k_proj.get(), v_proj.get()});
      return nn::KeyValueCache::KeysValues{split(both[0]), split(both[1])};
    };
    return (*out_proj)(attend_source(split((*q_proj)(x)), keys_and_values, mask, options));
  }
  const std::vector<at::Tensor> mixed = nn::linears(x, {q_proj.get(), k_proj.get(), v_proj.get()});
  return (*out_proj)(attend(split(mixed[0]), split(mixed[1]), split(mixed[2]), mask, options));
}

Block::Block(const WhisperConfig& config, Side side, at::ScalarType dtype) {
  const bool decodes = side == Side::kDecoder;
  const int64_t heads = decodes ? config.decoder_attention_heads : config.encoder_attention_heads;
  const int64_t inner = decodes ? config.decoder_ffn_dim : config.encoder_ffn_dim;
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<nn::LayerNorm>(config.d_model, 1e-5, dtype));
  };
  const auto dropout_of = [&](const char* name, double probability) {
    return register_module(name, std::make_shared<nn::Dropout>(probability));
  };
  self_attn = register_module("self_attn", std::make_shared<Attention>(config, heads, decodes, dtype));
  self_attn_layer_norm = norm("self_attn_layer_norm");
  if (decodes) {
    encoder_attn =
        register_module("encoder_attn", std::make_shared<Attention>(config, heads, /*causal=*/false, dtype));
    encoder_attn_layer_norm = norm("encoder_attn_layer_norm");
  }
  fc1 = register_module("fc1", std::make_shared<nn::Linear>(config.d_model, inner, true, dtype));
  activation_fn =
      register_module("activation_fn", std::make_shared<nn::Activation>(config.activation_function));
  activation_dropout = dropout_of("activation_dropout", config.activation_dropout);
  fc2 = register_module("fc2", std::make_shared<nn::Linear>(inner, config.d_model, true, dtype));
  final_layer_norm = norm("final_layer_norm");
  dropout = dropout_of("dropout", config.dropout);
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& source, const at::Tensor& padding) const {
  nn::Branch branch = self_attn_layer_norm->branch(x);
  at::Tensor hidden = dropout->added(branch.kept, (*self_attn)(branch.normed, {}, padding));
  if (encoder_attn) {
    branch = encoder_attn_layer_norm->branch(hidden);
    hidden = dropout->added(branch.kept, (*encoder_attn)(branch.normed, source, {}));
  }
  branch = final_layer_norm->branch(hidden);
  const at::Tensor inner = (*activation_dropout)(activation_fn->of_linear(*fc1, branch.normed));
  const at::Tensor result = dropout->added(branch.kept, (*fc2)(inner));
  return encoder_attn ? result : finite(result);
}

at::Tensor finite(const at::Tensor& x) {
  constexpr double kLarge = 65504 - 1000;
  return x.scalar_type() == at::kHalf ? x.clamp(-kLarge, kLarge) : x;
}

StackLayers::StackLayers(torch::nn::Module& root, const WhisperConfig& config, Side side, bool feeds_decoder,
                         at::ScalarType dtype)
    : places(root, feeds_decoder) {
  torch::nn::Module& list = nn::submodule(root, "layers");
  const int64_t layers = side == Side::kEncoder ? config.encoder_layers : config.decoder_layers;
  for (int64_t layer = 0; layer < layers; ++layer)
    blocks.push_back(
        list.register_module(std::to_string(layer), std::make_shared<Block>(config, side, dtype)));
  layer_norm =
      root.register_module("layer_norm", std::make_shared<nn::LayerNorm>(config.d_model, 1e-5, dtype));
  dropout = root.register_module("dropout", std::make_shared<nn::Dropout>(config.dropout));
}

EncoderLayers::EncoderLayers(torch::nn::Module& root, const WhisperConfig& config, bool feeds_decoder,
                             at::ScalarType dtype)
    : StackLayers(root, config, Side::kEncoder, feeds_decoder, dtype), spec_augment_(config.spec_augment) {
  conv1 = root.register_module(
      "conv1", std::make_shared<Convolution>(config.num_mel_bins, config.d_model, /*stride=*/1, dtype));
  conv2 = root.register_module(
      "conv2", std::make_shared<Convolution>(config.d_model, config.d_model, /*stride=*/2, dtype));
  embed_positions = root.register_module(
      "embed_positions", std::make_shared<nn::Embedding>(config.max_source_positions, config.d_model, dtype));
  stream_split = root.register_module("stream_split", std::make_shared<nn::Identity>());
}

at::Tensor EncoderLayers::convolved(const at::Tensor& features, const at::Tensor& frames) const {
  static const nn::ActivationFunction gelu = nn::activation("gelu");
  at::Tensor x = (*places.stream_begin)(features);
  if (spec_augment_.on && dropout->is_training()) x = spec_augment_(x, frames);
  return gelu((*conv2)(gelu((*conv1)(x)))).transpose(1, 2).contiguous();
}

// Every recording has all positions, so their table is added as it is.
at::Tensor EncoderLayers::placed(const at::Tensor& x) const {
  return (*stream_split)((*dropout)(x + embed_positions->weight));
}

DecoderLayers::DecoderLayers(torch::nn::Module& root, const WhisperConfig& config, at::ScalarType dtype)
    : StackLayers(root, config, Side::kDecoder, /*feeds_decoder=*/false, dtype) {
  embed_tokens = root.register_module(
      "embed_tokens",
      std::make_shared<nn::Embedding>(config.vocab_size, config.d_model, dtype, config.pad_token_id));
  embed_positions = root.register_module(
      "embed_positions", std::make_shared<nn::Embedding>(config.max_target_positions, config.d_model, dtype));
}

at::Tensor DecoderLayers::embedded(const at::Tensor& ids, const at::Tensor& positions) const {
  const at::Tensor tokens = (*places.stream_begin)(ids);
  const at::Tensor places_of =
      positions.defined() ? positions : at::arange(tokens.size(1), tokens.options()).unsqueeze(0);
  return (*dropout)((*embed_tokens)(tokens) + (*embed_positions)(places_of));
}

std::vector<torch::nn::Module*> DecoderLayers::modules() const {
  return {places.stream_begin.get(), embed_tokens.get(), embed_positions.get(), dropout.get()};
}

}  // namespace weft::whisper
