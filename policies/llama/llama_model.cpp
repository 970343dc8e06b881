// Llama (Touvron et al., LLaMA: open and efficient foundation language models, arXiv:2302.13971): pre-norm
// blocks of grouped-query attention with rotary position embeddings and of a gated MLP. Shapes: N rows, T
// positions, C = hidden_size, H query heads, G key and value heads, D = head_dim.
#include "llama_model.hpp"

#include <array>
#include <string>

#include "llama_config.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::llama {

namespace {

class Attention : public nn::Attention {
 public:
  Attention(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // Computes causal attention. x: (N, T, C) -> (N, T, C); `positions`: (1, T) or (N, T), or undefined for
  // 0 ... T - 1; `mask` broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}, {"num_key_value_heads", &num_key_value_heads}};
  }

  int64_t num_heads, num_key_value_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> q_proj, k_proj, v_proj, o_proj;
  std::shared_ptr<nn::Dropout> attn_dropout;  // of the probabilities

 private:
  const std::shared_ptr<const nn::Rotary> rotary_;
};

class Mlp : public nn::Layer {
 public:
  Mlp(const LlamaConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> gate_proj, up_proj, down_proj;
  std::shared_ptr<nn::Activation> act_fn;
};

class Block : public nn::Layer {
 public:
  Block(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // Takes the arguments of Attention. (N, T, C) -> (N, T, C)
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Attention> self_attn;
  std::shared_ptr<Mlp> mlp;
  std::shared_ptr<nn::RmsNorm> input_layernorm, post_attention_layernorm;
};

Attention::Attention(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary,
                     at::ScalarType dtype)
    : num_heads(config.num_attention_heads),
      num_key_value_heads(config.num_key_value_heads),
      rotary_(std::move(rotary)) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.attention_bias, dtype));
  };
  q_proj = linear("q_proj", config.hidden_size, num_heads * config.head_dim);
  k_proj = linear("k_proj", config.hidden_size, num_key_value_heads * config.head_dim);
  v_proj = linear("v_proj", config.hidden_size, num_key_value_heads * config.head_dim);
  o_proj = linear("o_proj", num_heads * config.head_dim, config.hidden_size);
  attn_dropout =
      register_module("attn_dropout", std::make_shared<nn::AttentionDropout>(config.attention_dropout));
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& positions,
                                 const at::Tensor& mask) const {
  const at::Tensor q = (*q_proj)(x).unflatten(-1, {num_heads, -1});
  const at::Tensor k = (*k_proj)(x).unflatten(-1, {num_key_value_heads, -1});
  const at::Tensor v = (*v_proj)(x).unflatten(-1, {num_key_value_heads, -1});
  nn::AttentionOptions options;
  options.causal = true;
  if (is_training()) options.dropout = attn_dropout->probability;
  const at::Tensor own = positions_of(x, positions);
  return (*o_proj)(attend((*rotary_)(q, own), (*rotary_)(k, own), v, mask, options));
}

Mlp::Mlp(const LlamaConfig& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.mlp_bias, dtype));
  };
  gate_proj = linear("gate_proj", config.hidden_size, config.intermediate_size);
  up_proj = linear("up_proj", config.hidden_size, config.intermediate_size);
  down_proj = linear("down_proj", config.intermediate_size, config.hidden_size);
  act_fn = register_module("act_fn", std::make_shared<nn::Activation>(config.hidden_act));
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  return (*down_proj)((*act_fn)((*gate_proj)(x), (*up_proj)(x)));
}

Block::Block(const LlamaConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype) {
  const auto norm = [&] {
    return std::make_shared<nn::RmsNorm>(config.hidden_size, config.rms_norm_eps, dtype);
  };
  self_attn = register_module("self_attn", std::make_shared<Attention>(config, std::move(rotary), dtype));
  mlp = register_module("mlp", std::make_shared<Mlp>(config, dtype));
  input_layernorm = register_module("input_layernorm", norm());
  post_attention_layernorm = register_module("post_attention_layernorm", norm());
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const {
  const at::Tensor attended = x + (*self_attn)((*input_layernorm)(x), positions, mask);
  return attended + (*mlp)((*post_attention_layernorm)(attended));
}

struct HeadSetting {
  torch::nn::Module& model;
  const nn::Embedding& embed_tokens;
  const LlamaConfig& config;
  at::ScalarType dtype;
};

std::unique_ptr<nn::Head> base_head(const HeadSetting&) {
  return nn::make_base_head();
}
std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  const LlamaConfig& config = setting.config;
  nn::LanguageHead::Options options = {config.hidden_size, config.vocab_size, setting.dtype};
  if (config.tie_word_embeddings) {
    options.tied = &setting.embed_tokens;
    options.tied_name = "model.embed_tokens.weight";
  }
  return std::make_unique<nn::LanguageHead>(setting.model, options);
}
std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting) {
  const LlamaConfig& config = setting.config;
  return nn::make_sequence_classifier(setting.model, config.hidden_size, config.labels, config.pad_token_id,
                                      setting.dtype);
}

using Architecture = nn::Architecture<HeadSetting>;

constexpr std::array<Architecture, 3> kArchitectures = {{
    {"LlamaModel", "", base_head},
    {"LlamaForCausalLM", "model.", language_head},
    {"LlamaForSequenceClassification", "model.", sequence_classifier},
}};

class LlamaModel final : public nn::TokenStackModel {
 public:
  LlamaModel(const Config& config, const LlamaConfig& llama, const Architecture& architecture,
             at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

 private:
  const LlamaConfig llama_;
};

LlamaModel::LlamaModel(const Config& config, const LlamaConfig& llama, const Architecture& architecture,
                       at::ScalarType dtype)
    : TokenStackModel(
          config,
          {std::string(architecture.name), std::string(architecture.prefix), llama.hidden_size, dtype},
          {.vocabulary = llama.vocab_size,
           .positions = llama.max_position_embeddings,
           .positions_key = "max_position_embeddings",
           .blocks_need_positions = true,
           .packs = !llama.use_cache}),
      llama_(llama) {
  const auto embed_tokens = base().register_module(
      "embed_tokens",
      std::make_shared<nn::Embedding>(llama.vocab_size, llama.hidden_size, dtype, llama.padding_row()));
  auto prologue =
      nn::make_unit("prologue", {embed_tokens.get()}, [embedding = embed_tokens.get()](State& state) {
        state.set(nn::kHidden, (*embedding)(nn::take(state, nn::kInputIds)));
      });
  const auto rotary = std::make_shared<const nn::Rotary>(llama.rotary, llama.head_dim);
  const auto list = base().register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  std::vector<std::unique_ptr<nn::Unit>> blocks;
  for (int64_t layer = 0; layer < llama.num_hidden_layers; ++layer) {
    const std::string name = std::to_string(layer);
    const auto block = list->register_module(name, std::make_shared<Block>(llama, rotary, dtype));
    blocks.push_back(nn::make_unit("layers." + name, {block.get()}, [block = block.get()](State& state) {
      const at::Tensor positions = nn::find_or_undefined(state, nn::kPositions),
                       mask = nn::find_or_undefined(state, nn::kAttentionMask);
      state.set(nn::kHidden, (*block)(state.at(nn::kHidden), positions, mask));
    }));
  }
  const auto norm = base().register_module(
      "norm", std::make_shared<nn::RmsNorm>(llama.hidden_size, llama.rms_norm_eps, dtype));
  assemble(std::move(prologue), std::move(blocks), nn::last_layer(norm),
           architecture.make_head({*this, *embed_tokens, llama_, dtype}));
}

nn::Initial LlamaModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("norm.weight")) return nn::Initial::constant(1);
  // Hugging Face treats a range of 0 as the default here.
  nn::Initial initial =
      nn::Initial::normal(0, llama_.initializer_range == 0 ? 0.02 : llama_.initializer_range);
  const std::optional<int64_t> padding = llama_.padding_row();
  if (padding && parameter.ends_with("embed_tokens.weight")) {
    initial.zeros_begin = *padding * llama_.hidden_size;
    initial.zeros_end = initial.zeros_begin + llama_.hidden_size;
  }
  return initial;
}

bool LlamaModel::ignored_on_load(std::string_view entry) const {
  return entry.ends_with("rotary_emb.inv_freq");
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<LlamaModel>(config, LlamaConfig::read(config),
                                      nn::find_architecture(kArchitectures, "llama", architecture), dtype);
}

}  // namespace weft::llama
