// Shapes: N rows, T positions, C = hidden_size, H query heads, G key and value heads, D = head_dim.
#include "weft/nn/rotary_decoder.hpp"

#include <algorithm>
#include <string>

#include "weft/nn/architecture.hpp"
#include "weft/nn/decoder_parts.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::nn {

namespace {

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
  LanguageHead::Options options =
      language_options(setting, setting.config.hidden_size, "model.embed_tokens.weight");
  options.soft_cap = setting.config.logit_soft_cap;
  return std::make_unique<LanguageHead>(setting.model, options);
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
                       .packs = true}),
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
