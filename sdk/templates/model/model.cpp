// Shapes: N rows, T positions, C = hidden_size, H heads. Layers have shapes and no memory here; a strategy
// gives them some. The code knows no ranks: policy.c says how ranks share the layers.
#include "model.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>

#include <weft/nn/architecture.hpp>
#include <weft/nn/config_values.hpp>
#include <weft/nn/language_head.hpp>
#include <weft/nn/stack_model.hpp>

namespace template_name_family {

namespace {

namespace nn = weft::nn;
using weft::Config;
using weft::State;

struct Sizes {
  int64_t vocab_size, positions, channels, hidden, heads, layers;
  bool tie_word_embeddings = true;  // the head has the weight of the token embedding

  static Sizes read(const Config& config) {
    nn::refuse_unsupported(config, "TemplateName", "template_name");
    const Sizes sizes = {
        nn::positive(config, "vocab_size", 256),        nn::positive(config, "max_position_embeddings", 128),
        nn::positive(config, "hidden_size", 64),        nn::positive(config, "intermediate_size", 256),
        nn::positive(config, "num_attention_heads", 4), nn::num_layers(config, "num_hidden_layers", 2)};
    nn::require_multiple(config, "hidden_size", sizes.channels, "num_attention_heads", sizes.heads);
    return sizes;
  }
};

class Attention final : public nn::Attention {
 public:
  Attention(const Sizes& sizes, at::ScalarType dtype) : num_heads_(sizes.heads) {
    const auto linear = [&](const char* name) {
      return register_module(
          name, std::make_shared<nn::Linear>(sizes.channels, sizes.channels, /*bias=*/true, dtype));
    };
    q_ = linear("q");
    k_ = linear("k");
    v_ = linear("v");
    out_ = linear("out");
  }
  // x: (N, T, C) -> (N, T, C); `mask` broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const {
    const std::vector<at::Tensor> mixed = nn::linears(x, {q_.get(), k_.get(), v_.get()});
    const auto heads = [&](size_t i) { return mixed[i].unflatten(-1, {num_heads_, -1}); };
    nn::AttentionOptions options;
    options.causal = true;
    return (*out_)(attend(heads(0), heads(1), heads(2), mask, options));
  }
  // What the policy divides: each rank has some of the heads.
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads_}};
  }

 private:
  int64_t num_heads_;
  std::shared_ptr<nn::Linear> q_, k_, v_, out_;
};

class Block final : public nn::Layer {
 public:
  Block(const Sizes& sizes, at::ScalarType dtype) {
    const auto norm = [&](const char* name) {
      return register_module(name, std::make_shared<nn::LayerNorm>(sizes.channels, 1e-5, dtype));
    };
    attention_norm_ = norm("attention_norm");
    attention_ = register_module("attention", std::make_shared<Attention>(sizes, dtype));
    mlp_norm_ = norm("mlp_norm");
    up_ = register_module("up", std::make_shared<nn::Linear>(sizes.channels, sizes.hidden, true, dtype));
    activation_ = register_module("activation", std::make_shared<nn::Activation>("gelu"));
    down_ = register_module("down", std::make_shared<nn::Linear>(sizes.hidden, sizes.channels, true, dtype));
  }
  std::string kind() const override { return "Block"; }
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const {
    const at::Tensor attended = x + (*attention_)((*attention_norm_)(x), mask);
    return attended + (*down_)((*activation_)((*up_)((*mlp_norm_)(attended))));
  }

 private:
  std::shared_ptr<nn::LayerNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<nn::Linear> up_, down_;
  std::shared_ptr<nn::Activation> activation_;
};

using Setting = nn::HeadSetting<Sizes>;

std::unique_ptr<nn::Head> language_head(const Setting& setting) {
  return std::make_unique<nn::LanguageHead>(
      setting.model, nn::language_options(setting, setting.config.channels, "model.tokens.weight"));
}

// The classes of the family: a name, the prefix of its parameters, and its head.
constexpr std::array<nn::Architecture<Setting>, 1> kClasses = {{
    {"TemplateNameForCausalLM", "model.", language_head},
}};

class Decoder final : public nn::TokenStackModel {
 public:
  Decoder(const Config& config, const Sizes& sizes, const nn::Architecture<Setting>& architecture,
          at::ScalarType dtype)
      : TokenStackModel(
            config, {std::string(architecture.name), std::string(architecture.prefix), sizes.channels, dtype},
            {.vocabulary = sizes.vocab_size,
             .positions = sizes.positions,
             .positions_key = "max_position_embeddings",
             .packs = true}) {
    const auto embedding = [&](const char* name, int64_t count) {
      return base().register_module(name, std::make_shared<nn::Embedding>(count, sizes.channels, dtype));
    };
    const auto tokens = embedding("tokens", sizes.vocab_size);
    const auto positions = embedding("positions", sizes.positions);
    auto first = nn::make_unit("prologue", {tokens.get(), positions.get()},
                               [tokens = tokens.get(), positions = positions.get()](State& state) {
                                 const at::Tensor ids = nn::take(state, nn::kInputIds);
                                 const at::Tensor at =
                                     state.has(nn::kPositions)
                                         ? nn::take(state, nn::kPositions)
                                         : at::arange(ids.size(1), ids.options()).unsqueeze(0);
                                 state.set(nn::kHidden, (*tokens)(ids) + (*positions)(at));
                               });
    auto blocks = nn::make_blocks(
        base(), "layers", sizes.layers, [&](int64_t) { return std::make_shared<Block>(sizes, dtype); },
        nn::run_masked<Block>);
    const auto norm =
        base().register_module("norm", std::make_shared<nn::LayerNorm>(sizes.channels, 1e-5, dtype));
    assemble(std::move(first), std::move(blocks), nn::last_layer(norm),
             architecture.make_head({*this, *tokens, sizes, dtype}));
  }

  nn::Initial initial(std::string_view parameter) const override {
    if (parameter.ends_with("bias")) return nn::Initial::constant(0);
    if (parameter.ends_with("norm.weight")) return nn::Initial::constant(1);
    return nn::Initial::normal(0, 0.05);
  }
};

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<Decoder>(config, Sizes::read(config),
                                   nn::find_architecture(kClasses, "template_name", architecture), dtype);
}

}  // namespace template_name_family
