// Bloom (BigScience Workshop, BLOOM: a 176B-parameter open-access multilingual language model,
// arXiv:2211.05100): token embeddings and a norm, then blocks of attention with ALiBi and of MLP. Shapes:
// N rows, T positions, C = hidden_size, H heads, D = C / H.
#include "bloom_model.hpp"

#include <array>

#include "bloom_config.hpp"
#include "weft/nn/alibi.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/masks.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::bloom {

namespace {

std::shared_ptr<nn::LayerNorm> make_norm(const BloomConfig& config, at::ScalarType dtype) {
  return std::make_shared<nn::LayerNorm>(config.hidden_size, config.layer_norm_epsilon, dtype);
}

class Attention : public nn::Attention {
 public:
  Attention(const BloomConfig& config, at::ScalarType dtype);
  // Computes causal attention. x: (N, T, C) -> (N, T, C); padding: additive mask (N, 1, 1, T), document
  // begins, or undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& padding) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }

  int64_t num_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Alibi> alibi;
  std::shared_ptr<nn::Linear> query_key_value, dense;
  std::shared_ptr<nn::Dropout> attention_dropout;  // of the probabilities
};

class Mlp : public nn::Layer {
 public:
  Mlp(const BloomConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> dense_h_to_4h, dense_4h_to_h;
  std::shared_ptr<nn::Activation> gelu_impl;
};

class Block : public nn::Layer {
 public:
  Block(const BloomConfig& config, at::ScalarType dtype);
  // Takes the arguments of Attention. (N, T, C) -> (N, T, C)
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& padding) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<nn::LayerNorm> input_layernorm, post_attention_layernorm;
  std::shared_ptr<Attention> self_attention;
  std::shared_ptr<Mlp> mlp;
  std::shared_ptr<nn::Dropout> dropout;  // of what attention and MLP add

 private:
  const bool adds_to_normed_;
};

Attention::Attention(const BloomConfig& config, at::ScalarType dtype) : num_heads(config.n_head) {
  const auto linear = [&](const char* name, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(config.hidden_size, out, true, dtype));
  };
  alibi = register_module("alibi", std::make_shared<nn::Alibi>(num_heads));
  query_key_value = linear("query_key_value", 3 * config.hidden_size);
  dense = linear("dense", config.hidden_size);
  attention_dropout =
      register_module("attention_dropout", std::make_shared<nn::AttentionDropout>(config.attention_dropout));
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& padding) const {
  nn::AttentionOptions options;
  options.causal = true;
  if (is_training()) options.dropout = attention_dropout->probability;
  if (nn::are_document_begins(padding)) options.documents = padding;
  const std::vector<at::Tensor> parts = (*query_key_value)(x).unflatten(-1, {num_heads, 3, -1}).unbind(3);
  return (*dense)(attend(parts[0], parts[1], parts[2], (*alibi)(x, padding), options));
}

Mlp::Mlp(const BloomConfig& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, true, dtype));
  };
  dense_h_to_4h = linear("dense_h_to_4h", config.hidden_size, 4 * config.hidden_size);
  gelu_impl = register_module("gelu_impl", std::make_shared<nn::Activation>("gelu_new"));
  dense_4h_to_h = linear("dense_4h_to_h", 4 * config.hidden_size, config.hidden_size);
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return (*dense_4h_to_h)(gelu_impl->of_linear(*dense_h_to_4h, x));
}

Block::Block(const BloomConfig& config, at::ScalarType dtype)
    : adds_to_normed_(config.apply_residual_connection_post_layernorm) {
  input_layernorm = register_module("input_layernorm", make_norm(config, dtype));
  self_attention = register_module("self_attention", std::make_shared<Attention>(config, dtype));
  post_attention_layernorm = register_module("post_attention_layernorm", make_norm(config, dtype));
  mlp = register_module("mlp", std::make_shared<Mlp>(config, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.hidden_dropout));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& padding) const {
  const auto residual = [&](const nn::Branch& of) { return adds_to_normed_ ? of.normed : of.kept; };
  const nn::Branch first = input_layernorm->branch(x);
  const nn::Branch second = post_attention_layernorm->branch(
      dropout->added(residual(first), (*self_attention)(first.normed, padding)));
  return dropout->added(residual(second), (*mlp)(second.normed));
}

using HeadSetting = nn::HeadSetting<BloomConfig>;

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  return std::make_unique<nn::LanguageHead>(
      setting.model,
      nn::language_options(setting, setting.config.hidden_size, "transformer.word_embeddings.weight"));
}
std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting) {
  const BloomConfig& config = setting.config;
  return nn::make_sequence_classifier(setting.model, config.hidden_size, config.labels, config.pad_token_id,
                                      setting.dtype);
}
std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting) {
  const BloomConfig& config = setting.config;
  return nn::make_token_classifier(setting.model, config.hidden_size, config.labels,
                                   config.classifier_dropout, setting.dtype);
}
std::unique_ptr<nn::Head> answer_head(const HeadSetting& setting) {
  return nn::make_answer_head(setting.model, setting.config.hidden_size, setting.dtype);
}

using Architecture = nn::Architecture<HeadSetting>;

constexpr std::array<Architecture, 5> kArchitectures = {{
    {"BloomModel", "", nn::base_head<HeadSetting>},
    {"BloomForCausalLM", "transformer.", language_head},
    {"BloomForSequenceClassification", "transformer.", sequence_classifier},
    {"BloomForTokenClassification", "transformer.", token_classifier},
    {"BloomForQuestionAnswering", "transformer.", answer_head},
}};

class BloomModel final : public nn::TokenStackModel {
 public:
  BloomModel(const Config& config, const BloomConfig& bloom, const Architecture& architecture,
             at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;

 private:
  const BloomConfig bloom_;
};

// Positions are counted from the attention mask, so sequences have any length and no position_ids.
BloomModel::BloomModel(const Config& config, const BloomConfig& bloom, const Architecture& architecture,
                       at::ScalarType dtype)
    : TokenStackModel(
          config,
          {std::string(architecture.name), std::string(architecture.prefix), bloom.hidden_size, dtype},
          {.vocabulary = bloom.vocab_size, .position_ids = false, .packs = true}),
      bloom_(bloom) {
  const auto words = base().register_module(
      "word_embeddings", std::make_shared<nn::Embedding>(bloom.vocab_size, bloom.hidden_size, dtype));
  const auto norm = base().register_module("word_embeddings_layernorm", make_norm(bloom, dtype));
  auto prologue = nn::make_unit("prologue", {words.get(), norm.get()},
                                [words = words.get(), norm = norm.get()](State& state) {
                                  state.set(nn::kHidden, (*norm)((*words)(nn::take(state, nn::kInputIds))));
                                });
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "h", bloom.n_layer, [&](int64_t) { return std::make_shared<Block>(bloom, dtype); },
      nn::run_masked<Block>);
  const auto ln_f = base().register_module("ln_f", make_norm(bloom, dtype));
  assemble(std::move(prologue), std::move(blocks), nn::last_layer(ln_f),
           architecture.make_head({*this, *words, bloom_, dtype}));
}

nn::Initial BloomModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("layernorm.weight") || parameter.ends_with("ln_f.weight"))
    return nn::Initial::constant(1);
  return nn::Initial::weights(bloom_.initializer_range);
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<BloomModel>(config, BloomConfig::read(config),
                                      nn::find_architecture(kArchitectures, "bloom", architecture), dtype);
}

}  // namespace weft::bloom
