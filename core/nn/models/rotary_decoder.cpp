// Shapes: N rows, T positions, C = hidden_size, H query heads, G key and value heads, D = head_dim.
#include "weft/nn/rotary_decoder.hpp"

#include <algorithm>
#include <string>

#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::nn {

namespace {

using SharedRotary = std::shared_ptr<const Rotary>;

class GroupedAttention final : public Attention {
 public:
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
  const SharedRotary rotary_;
};

class GatedMlp final : public Layer {
 public:
  GatedMlp(const RotaryDecoderConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<Linear> gate_proj, up_proj, down_proj;
  std::shared_ptr<Activation> act_fn;
};

class Block final : public Layer {
 public:
  Block(const RotaryDecoderConfig& config, int64_t window, SharedRotary rotary, at::ScalarType dtype);
  // Takes the arguments of GroupedAttention. (N, T, C) -> (N, T, C)
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<GroupedAttention> self_attn;
  std::shared_ptr<GatedMlp> mlp;
  std::shared_ptr<RmsNorm> input_layernorm, post_attention_layernorm;
};

GroupedAttention::GroupedAttention(const RotaryDecoderConfig& config, int64_t window, SharedRotary rotary,
                                   at::ScalarType dtype)
    : num_heads(config.num_attention_heads),
      num_key_value_heads(config.num_key_value_heads),
      window_(window),
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

Block::Block(const RotaryDecoderConfig& config, int64_t window, SharedRotary rotary, at::ScalarType dtype) {
  const auto norm = [&] { return std::make_shared<RmsNorm>(config.hidden_size, config.rms_norm_eps, dtype); };
  self_attn = register_module("self_attn",
                              std::make_shared<GroupedAttention>(config, window, std::move(rotary), dtype));
  mlp = register_module("mlp", std::make_shared<GatedMlp>(config, dtype));
  input_layernorm = register_module("input_layernorm", norm());
  post_attention_layernorm = register_module("post_attention_layernorm", norm());
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const {
  const Branch first = input_layernorm->branch(x);
  const Branch second =
      post_attention_layernorm->branch(first.kept + (*self_attn)(first.normed, positions, mask));
  return second.kept + (*mlp)(second.normed);
}

using DecoderSetting = HeadSetting<RotaryDecoderConfig>;

std::unique_ptr<Head> language_head(const DecoderSetting& setting) {
  return std::make_unique<LanguageHead>(
      setting.model, language_options(setting, setting.config.hidden_size, "model.embed_tokens.weight"));
}
std::unique_ptr<Head> sequence_classifier(const DecoderSetting& setting) {
  const RotaryDecoderConfig& config = setting.config;
  return make_sequence_classifier(setting.model, config.hidden_size, config.labels, config.pad_token_id,
                                  setting.dtype);
}
std::unique_ptr<Head> token_classifier(const DecoderSetting& setting) {
  const RotaryDecoderConfig& config = setting.config;
  return make_token_classifier(setting.model, config.hidden_size, config.labels, config.classifier_dropout,
                               setting.dtype, "score", config.classifier_bias);
}
std::unique_ptr<Head> answer_head(const DecoderSetting& setting) {
  return make_answer_head(setting.model, setting.config.hidden_size, setting.dtype);
}

// A class. Its name and prefix are made of texts that the family gives.
struct DecoderClass {
  std::string name, prefix;
  std::unique_ptr<Head> (*make_head)(const DecoderSetting& setting);
};

std::vector<DecoderClass> classes_of(const std::string& family, const RotaryDecoderConfig& config) {
  return {{family + "Model", "", base_head<DecoderSetting>},
          {family + "ForCausalLM", "model.", language_head},
          {family + "ForSequenceClassification", "model.", sequence_classifier},
          {family + "ForTokenClassification", "model.", token_classifier},
          {family + "ForQuestionAnswering", config.answer_base + ".", answer_head}};
}

class RotaryDecoder final : public TokenStackModel {
 public:
  RotaryDecoder(const Config& config, const RotaryDecoderConfig& decoder, const DecoderClass& architecture,
                at::ScalarType dtype);
  Initial initial(std::string_view parameter) const override;
  // Old checkpoints contain the frequencies of rotary positions.
  bool ignored_on_load(std::string_view entry) const override {
    return entry.ends_with("rotary_emb.inv_freq");
  }

 private:
  const RotaryDecoderConfig decoder_;
};

RotaryDecoder::RotaryDecoder(const Config& config, const RotaryDecoderConfig& decoder,
                             const DecoderClass& architecture, at::ScalarType dtype)
    : TokenStackModel(config, {architecture.name, architecture.prefix, decoder.hidden_size, dtype},
                      {.vocabulary = decoder.vocab_size,
                       .positions = decoder.max_position_embeddings,
                       .positions_key = "max_position_embeddings",
                       .blocks_need_positions = true,
                       .packs = !decoder.use_cache}),
      decoder_(decoder) {
  const auto embed_tokens = base().register_module(
      "embed_tokens",
      std::make_shared<Embedding>(decoder.vocab_size, decoder.hidden_size, dtype, decoder.padding_row()));
  auto prologue = make_unit("prologue", {embed_tokens.get()}, [embedding = embed_tokens.get()](State& state) {
    state.set(kHidden, (*embedding)(take(state, kInputIds)));
  });
  const auto rotary = std::make_shared<const Rotary>(decoder.rotary, decoder.head_dim);
  std::vector<std::unique_ptr<Unit>> blocks = make_blocks(
      base(), "layers", decoder.num_hidden_layers,
      [&](int64_t layer) {
        const int64_t window = decoder.windows.empty() ? 0 : decoder.windows.at(static_cast<size_t>(layer));
        return std::make_shared<Block>(decoder, window, rotary, dtype);
      },
      run_placed<Block>);
  const auto norm = base().register_module(
      "norm", std::make_shared<RmsNorm>(decoder.hidden_size, decoder.rms_norm_eps, dtype));
  assemble(std::move(prologue), std::move(blocks), last_layer(norm),
           architecture.make_head({*this, *embed_tokens, decoder_, dtype}));
}

Initial RotaryDecoder::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return Initial::constant(0);
  if (parameter.ends_with("norm.weight")) return Initial::constant(1);
  const Initial weights = Initial::weights(decoder_.initializer_range);
  if (!parameter.ends_with("embed_tokens.weight")) return weights;
  return weights.with_padding(decoder_.padding_row(), decoder_.hidden_size);
}

}  // namespace

std::shared_ptr<Model> make_rotary_decoder(const Config& config, const RotaryDecoderConfig& decoder,
                                           std::string_view family, std::string_view architecture,
                                           at::ScalarType dtype) {
  const std::vector<DecoderClass> classes = classes_of(std::string(family), decoder);
  return std::make_shared<RotaryDecoder>(config, decoder, find_architecture(classes, family, architecture),
                                         dtype);
}

}  // namespace weft::nn
