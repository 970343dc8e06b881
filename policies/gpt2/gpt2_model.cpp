// GPT-2 (Radford et al., Language models are unsupervised multitask learners, 2019): token and position
// embeddings, then pre-norm blocks of attention and MLP. Shapes: N rows, T positions, E = n_embd, H heads,
// D = E / H.
#include "gpt2_model.hpp"

#include <ATen/ops/arange.h>

#include <array>
#include <cmath>

#include "double_heads.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::gpt2 {

namespace {

std::shared_ptr<nn::Linear> conv1d(int64_t in, int64_t out, at::ScalarType dtype) {
  return std::make_shared<nn::Linear>(in, out, true, dtype, nn::Linear::Layout::kInOut);
}

class Attention : public nn::Attention {
 public:
  Attention(const Gpt2Config& config, int64_t layer, at::ScalarType dtype);
  // Computes causal attention. x: (N, T, E) -> (N, T, E); `mask` broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }

  int64_t num_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> c_attn, c_proj;
  std::shared_ptr<nn::Dropout> attn_dropout, resid_dropout;  // the block applies resid_dropout

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
  std::shared_ptr<nn::Dropout> dropout;  // the block applies it
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

Attention::Attention(const Gpt2Config& config, int64_t layer, at::ScalarType dtype)
    : num_heads(config.n_head), head_size_(config.n_embd / config.n_head) {
  c_attn = register_module("c_attn", conv1d(config.n_embd, 3 * config.n_embd, dtype));
  c_proj = register_module("c_proj", conv1d(config.n_embd, config.n_embd, dtype));
  attn_dropout = register_module("attn_dropout", std::make_shared<nn::AttentionDropout>(config.attn_pdrop));
  resid_dropout = register_module("resid_dropout", std::make_shared<nn::Dropout>(config.resid_pdrop));
  options_.causal = true;
  options_.upcast = config.reorder_and_upcast_attn;
  options_.scale = config.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(head_size_)) : 1;
  if (config.scale_attn_by_inverse_layer_idx) *options_.scale /= static_cast<double>(layer + 1);
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  nn::AttentionOptions options = options_;
  if (is_training()) options.dropout = attn_dropout->probability;
  const at::Tensor mixed = (*c_attn)(x);  // of all positions, even if x is split along them
  const at::Tensor qkv = mixed.view({mixed.size(0), mixed.size(1), 3, num_heads, head_size_});
  return (*c_proj)(attend(qkv, mask, options));
}

Mlp::Mlp(const Gpt2Config& config, at::ScalarType dtype) {
  c_fc = register_module("c_fc", conv1d(config.n_embd, config.n_inner, dtype));
  c_proj = register_module("c_proj", conv1d(config.n_inner, config.n_embd, dtype));
  act = register_module("act", std::make_shared<nn::Activation>(config.activation_function));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.resid_pdrop));
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return (*c_proj)(act->of_linear(*c_fc, x));
}

Block::Block(const Gpt2Config& config, int64_t layer, at::ScalarType dtype) {
  const auto norm = [&] {
    return std::make_shared<nn::LayerNorm>(config.n_embd, config.layer_norm_epsilon, dtype);
  };
  ln_1 = register_module("ln_1", norm());
  attn = register_module("attn", std::make_shared<Attention>(config, layer, dtype));
  ln_2 = register_module("ln_2", norm());
  mlp = register_module("mlp", std::make_shared<Mlp>(config, dtype));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const nn::Branch first = ln_1->branch(x);
  const nn::Branch second = ln_2->branch(attn->resid_dropout->added(first.kept, (*attn)(first.normed, mask)));
  return mlp->dropout->added(second.kept, (*mlp)(second.normed));
}

using HeadSetting = nn::HeadSetting<Gpt2Config>;

nn::LanguageHead::Options language_options(const HeadSetting& setting) {
  return nn::language_options(setting, setting.config.n_embd, "transformer.wte.weight");
}

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  return std::make_unique<nn::LanguageHead>(setting.model, language_options(setting));
}
std::unique_ptr<nn::Head> double_heads(const HeadSetting& setting) {
  return make_double_heads(setting.model, setting.config, language_options(setting));
}
std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting) {
  return nn::make_sequence_classifier(setting.model, setting.config.n_embd, setting.config.labels,
                                      setting.config.pad_token_id, setting.dtype);
}
std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting) {
  return nn::make_token_classifier(setting.model, setting.config.n_embd, setting.config.labels,
                                   setting.config.classifier_dropout, setting.dtype);
}
std::unique_ptr<nn::Head> answer_head(const HeadSetting& setting) {
  return nn::make_answer_head(setting.model, setting.config.n_embd, setting.dtype);
}

using Architecture = nn::Architecture<HeadSetting>;

constexpr std::array<Architecture, 6> kArchitectures = {{
    {"GPT2Model", "", nn::base_head<HeadSetting>},
    {"GPT2LMHeadModel", "transformer.", language_head},
    {"GPT2DoubleHeadsModel", "transformer.", double_heads},
    {"GPT2ForSequenceClassification", "transformer.", sequence_classifier},
    {"GPT2ForTokenClassification", "transformer.", token_classifier},
    {"GPT2ForQuestionAnswering", "transformer.", answer_head},
}};

class Gpt2Model final : public nn::TokenStackModel {
 public:
  Gpt2Model(const Config& config, const Gpt2Config& gpt2, const Architecture& architecture,
            at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

 private:
  std::unique_ptr<nn::Unit> make_prologue(int64_t vocabulary, int64_t positions, double dropout);

  const Gpt2Config gpt2_;
  std::shared_ptr<nn::Embedding> wte_;
};

// Token types share the token embedding.
Gpt2Model::Gpt2Model(const Config& config, const Gpt2Config& gpt2, const Architecture& architecture,
                     at::ScalarType dtype)
    : TokenStackModel(config,
                      {std::string(architecture.name), std::string(architecture.prefix), gpt2.n_embd, dtype},
                      {.vocabulary = gpt2.vocab_size,
                       .positions = gpt2.n_positions,
                       .positions_key = "n_positions",
                       .token_types = gpt2.vocab_size,
                       .packs = true}),
      gpt2_(gpt2) {
  std::unique_ptr<nn::Unit> prologue = make_prologue(gpt2.vocab_size, gpt2.n_positions, gpt2.embd_pdrop);
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "h", gpt2.n_layer, [&](int64_t layer) { return std::make_shared<Block>(gpt2, layer, dtype); },
      nn::run_masked<Block>);
  const auto ln_f = base().register_module(
      "ln_f", std::make_shared<nn::LayerNorm>(gpt2.n_embd, gpt2.layer_norm_epsilon, dtype));
  assemble(std::move(prologue), std::move(blocks), nn::last_layer(ln_f),
           architecture.make_head({*this, *wte_, gpt2_, dtype}));
}

std::unique_ptr<nn::Unit> Gpt2Model::make_prologue(int64_t vocabulary, int64_t positions, double dropout) {
  const auto embedding = [&](const char* name, int64_t count) {
    return base().register_module(name,
                                  std::make_shared<nn::Embedding>(count, traits().channels, traits().dtype));
  };
  wte_ = embedding("wte", vocabulary);
  const auto wpe = embedding("wpe", positions);
  const auto drop = base().register_module("drop", std::make_shared<nn::Dropout>(dropout));
  return nn::make_unit("prologue", {wte_.get(), wpe.get(), drop.get()},
                       [wte = wte_.get(), wpe = wpe.get(), drop = drop.get()](State& state) {
                         const at::Tensor ids = state.at(nn::kInputIds);
                         const at::Tensor* given = state.find(nn::kPositions);
                         const at::Tensor positions =
                             given ? *given : at::arange(ids.size(1), ids.options()).unsqueeze(0);
                         at::Tensor hidden = (*wte)(ids) + (*wpe)(positions);
                         if (const at::Tensor* types = state.find(nn::kTokenTypes))
                           hidden = hidden + (*wte)(*types);
                         for (const char* name : {nn::kInputIds, nn::kPositions, nn::kTokenTypes})
                           state.erase(name);
                         state.set(nn::kHidden, (*drop)(hidden));
                       });
}

nn::Initial Gpt2Model::initial(std::string_view parameter) const {
  const auto within = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (within("ln_")) return nn::Initial::constant(1);
  const double range = gpt2_.initializer_range;
  // The initial weights of residual layers shrink with the depth (section 2.3 of the paper).
  if (parameter.ends_with("c_proj.weight"))
    return nn::Initial::normal(0, range / std::sqrt(2.0 * gpt2_.n_layer));
  if (within("c_attn") || within("c_fc")) return nn::Initial::normal(0, range);
  return nn::Initial::weights(range);
}

bool Gpt2Model::ignored_on_load(std::string_view entry) const {
  return entry.ends_with(".attn.bias") || entry.ends_with(".attn.masked_bias");
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<Gpt2Model>(config, Gpt2Config::read(config),
                                     nn::find_architecture(kArchitectures, "gpt2", architecture), dtype);
}

}  // namespace weft::gpt2
