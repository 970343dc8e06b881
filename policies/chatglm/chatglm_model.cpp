// Pre-norm blocks of attention with rotary positions and of a gated MLP. Queries, keys and values are one
// linear layer, and so are gate and up. Shapes: N rows, T positions, C = hidden_size, H query heads, G key
// and value heads, D = kv_channels, F = ffn_hidden_size.
#include "chatglm_model.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <weft/error.hpp>

#include <array>
#include <cmath>
#include <string>

#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/masks.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/rotary.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::chatglm {

namespace {

// The number of pairs of channels (2j, 2j + 1) of a head that turn, by position * 10000^(-2j / (D / 2)). The
// other channels, about half of them, do not.
int64_t rotary_pairs(int64_t channels) {
  return (channels / 2 + 1) / 2;
}

// nn::Rotary divides exponents by the number of channels that turn, which is more than D / 2 if that is odd.
nn::RotaryConfig rotary_config(int64_t channels) {
  nn::RotaryConfig config;
  const auto turning = static_cast<double>(2 * rotary_pairs(channels)),
             wanted = static_cast<double>(channels / 2);
  config.theta = std::pow(10000, turning / wanted);
  return config;
}

// A layer that is an RMSNorm or a LayerNorm, as "rmsnorm" says.
class Norm {
 public:
  Norm(torch::nn::Module& parent, const char* name, const ChatGlmConfig& config, at::ScalarType dtype) {
    if (config.rmsnorm)
      rms_ = parent.register_module(
          name, std::make_shared<nn::RmsNorm>(config.hidden_size, config.layernorm_epsilon, dtype));
    else
      layer_ = parent.register_module(
          name, std::make_shared<nn::LayerNorm>(config.hidden_size, config.layernorm_epsilon, dtype));
  }
  at::Tensor operator()(const at::Tensor& x) const { return rms_ ? (*rms_)(x) : (*layer_)(x); }
  nn::Branch branch(const at::Tensor& x) const { return rms_ ? rms_->branch(x) : layer_->branch(x); }
  torch::nn::Module* module() const {
    return rms_ ? static_cast<torch::nn::Module*>(rms_.get()) : layer_.get();
  }

 private:
  std::shared_ptr<nn::RmsNorm> rms_;
  std::shared_ptr<nn::LayerNorm> layer_;
};

class Attention final : public nn::Attention {
 public:
  Attention(const ChatGlmConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // x: (N, T, C) -> (N, T, C); `positions`: (1, T) or (N, T), or undefined for 0 ... T - 1; `mask`: (N, 1, T,
  // T), or document begins or undefined for causal attention.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}, {"num_key_value_heads", &num_key_value_heads}};
  }

  int64_t num_heads, num_key_value_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> query_key_value, dense;
  std::shared_ptr<nn::Dropout> attention_dropout;  // of the probabilities

 private:
  // Splits (N, T, features) into queries (N, T, H, D), keys and values (N, T, G, D).
  std::array<at::Tensor, 3> heads_of(const at::Tensor& mixed) const;
  // Turns the heads of queries or keys. Moves the even channels of the pairs before the odd ones, which
  // changes no product of a query and a key.
  at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions) const;

  const bool grouped_;
  const int64_t channels_;
  const std::shared_ptr<const nn::Rotary> rotary_;
};

class Mlp final : public nn::Layer {
 public:
  Mlp(const ChatGlmConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "MLP"; }

  std::shared_ptr<nn::Linear> dense_h_to_4h, dense_4h_to_h;
  std::shared_ptr<nn::Activation> activation_func;
};

class Block final : public nn::Layer {
 public:
  Block(const ChatGlmConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype);
  // Takes the arguments of Attention. (N, T, C) -> (N, T, C)
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const;
  std::string kind() const override { return "Block"; }

  const Norm input_layernorm;
  std::shared_ptr<Attention> self_attention;
  const Norm post_attention_layernorm;
  std::shared_ptr<Mlp> mlp;
  std::shared_ptr<nn::Dropout> hidden_dropout;  // of what attention and MLP add

 private:
  const bool adds_to_norm_;
};

Attention::Attention(const ChatGlmConfig& config, std::shared_ptr<const nn::Rotary> rotary,
                     at::ScalarType dtype)
    : num_heads(config.num_attention_heads),
      num_key_value_heads(config.key_heads),
      grouped_(config.multi_query_attention),
      channels_(config.kv_channels),
      rotary_(std::move(rotary)) {
  const int64_t features = num_heads * channels_, keys = num_key_value_heads * channels_;
  query_key_value = register_module(
      "query_key_value", std::make_shared<nn::Linear>(config.hidden_size, features + 2 * keys,
                                                      config.add_qkv_bias || config.add_bias_linear, dtype));
  dense = register_module(
      "dense", std::make_shared<nn::Linear>(features, config.hidden_size, config.add_bias_linear, dtype));
  attention_dropout =
      register_module("attention_dropout", std::make_shared<nn::AttentionDropout>(config.attention_dropout));
}

std::array<at::Tensor, 3> Attention::heads_of(const at::Tensor& mixed) const {
  if (!grouped_) {
    const std::vector<at::Tensor> parts = mixed.unflatten(-1, {num_heads, 3 * channels_}).chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const int64_t keys = num_key_value_heads * channels_;
  const std::vector<at::Tensor> parts = mixed.split_with_sizes({num_heads * channels_, keys, keys}, -1);
  return {parts[0].unflatten(-1, {num_heads, channels_}),
          parts[1].unflatten(-1, {num_key_value_heads, channels_}),
          parts[2].unflatten(-1, {num_key_value_heads, channels_})};
}

at::Tensor Attention::rotated(const at::Tensor& x, const at::Tensor& positions) const {
  const int64_t pairs = rotary_pairs(channels_), rest = channels_ - 2 * pairs;
  const at::Tensor halves = x.narrow(-1, 0, 2 * pairs).unflatten(-1, {pairs, 2}).transpose(-1, -2);
  const at::Tensor turned = (*rotary_)(halves.flatten(-2), positions);
  return rest == 0 ? turned : at::cat({turned, x.narrow(-1, 2 * pairs, rest)}, -1);
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& positions,
                                 const at::Tensor& mask) const {
  const auto [q, k, v] = heads_of((*query_key_value)(x));
  nn::AttentionOptions options;
  options.causal = !mask.defined() || nn::are_document_begins(mask);
  if (is_training()) options.dropout = attention_dropout->probability;
  const at::Tensor own = positions_of(x, positions);
  return (*dense)(attend(rotated(q, own), rotated(k, own), v, mask, options));
}

Mlp::Mlp(const ChatGlmConfig& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.add_bias_linear, dtype));
  };
  dense_h_to_4h = linear("dense_h_to_4h", config.hidden_size, 2 * config.ffn_hidden_size);
  activation_func = register_module("activation_func", std::make_shared<nn::Activation>("silu"));
  dense_4h_to_h = linear("dense_4h_to_h", config.ffn_hidden_size, config.hidden_size);
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  const std::vector<at::Tensor> gate_up = (*dense_h_to_4h)(x).chunk(2, -1);
  return (*dense_4h_to_h)((*activation_func)(gate_up[0], gate_up[1]));
}

Block::Block(const ChatGlmConfig& config, std::shared_ptr<const nn::Rotary> rotary, at::ScalarType dtype)
    : input_layernorm(*this, "input_layernorm", config, dtype),
      self_attention(
          register_module("self_attention", std::make_shared<Attention>(config, std::move(rotary), dtype))),
      post_attention_layernorm(*this, "post_attention_layernorm", config, dtype),
      mlp(register_module("mlp", std::make_shared<Mlp>(config, dtype))),
      hidden_dropout(register_module("hidden_dropout", std::make_shared<nn::Dropout>(config.hidden_dropout))),
      adds_to_norm_(config.apply_residual_connection_post_layernorm) {}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const {
  const auto residual = [&](const nn::Branch& of) { return adds_to_norm_ ? of.normed : of.kept; };
  const nn::Branch first = input_layernorm.branch(x);
  const nn::Branch second = post_attention_layernorm.branch(
      hidden_dropout->added(residual(first), (*self_attention)(first.normed, positions, mask)));
  return hidden_dropout->added(residual(second), (*mlp)(second.normed));
}

struct HeadSetting {
  torch::nn::Module& base;
  const ChatGlmConfig& config;
  at::ScalarType dtype;
};

// The layer belongs to the base model, and is never tied.
std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  return std::make_unique<nn::LanguageHead>(
      setting.base, nn::LanguageHead::Options{.channels = setting.config.hidden_size,
                                              .vocabulary = setting.config.padded_vocab_size,
                                              .dtype = setting.dtype,
                                              .module = "output_layer",
                                              .prefix = "transformer."});
}

using Architecture = nn::Architecture<HeadSetting>;

constexpr std::array<Architecture, 2> kArchitectures = {{
    {"ChatGLMModel", "", nn::base_head<HeadSetting>},
    {"ChatGLMForConditionalGeneration", "transformer.", language_head},
}};

class ChatGlmModel final : public nn::TokenStackModel {
 public:
  ChatGlmModel(const Config& config, const ChatGlmConfig& glm, const Architecture& architecture,
               at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;
  // The published classes store frequencies that they do not read, and their base model has the output layer.
  bool ignored_on_load(std::string_view entry) const override {
    return entry.ends_with("rotary_pos_emb.inv_freq") ||
           (base_prefix().empty() && entry.ends_with("output_layer.weight"));
  }
  // What builds the published classes without initialising them takes the frequencies from the file.
  State constants() const override {
    const int64_t turning = glm_.kv_channels / 2;
    const at::Tensor exponents = at::arange(0, turning, 2).to(traits().dtype) / turning;
    return {{base_prefix() + "rotary_pos_emb.inv_freq", at::pow(10000, exponents).reciprocal()}};
  }

 private:
  void add_fields(const nn::BatchFields& batch, State& state) const override;

  const ChatGlmConfig glm_;
};

ChatGlmModel::ChatGlmModel(const Config& config, const ChatGlmConfig& glm, const Architecture& architecture,
                           at::ScalarType dtype)
    : TokenStackModel(
          config, {std::string(architecture.name), std::string(architecture.prefix), glm.hidden_size, dtype},
          {.vocabulary = glm.padded_vocab_size,
           .positions = glm.seq_length,
           .positions_key = "seq_length",
           .blocks_need_positions = true,
           .packs = true,
           .positions_mark_documents = false}),
      glm_(glm) {
  const auto words =
      nn::submodule(base(), "embedding")
          .register_module("word_embeddings",
                           std::make_shared<nn::Embedding>(glm.padded_vocab_size, glm.hidden_size, dtype));
  auto prologue = nn::make_unit("prologue", {words.get()}, [words = words.get()](State& state) {
    state.set(nn::kHidden, (*words)(nn::take(state, nn::kInputIds)));
  });
  const auto rotary =
      std::make_shared<const nn::Rotary>(rotary_config(glm.kv_channels), 2 * rotary_pairs(glm.kv_channels));
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "encoder.layers", glm.num_layers,
      [&](int64_t) { return std::make_shared<Block>(glm, rotary, dtype); }, nn::run_placed<Block>);
  nn::LastLayers last;
  if (glm.post_layer_norm) {
    const Norm norm(nn::submodule(base(), "encoder"), "final_layernorm", glm, dtype);
    last = {norm, {norm.module()}};
  }
  assemble(std::move(prologue), std::move(blocks), std::move(last),
           architecture.make_head({base(), glm_, dtype}));
}

// Replaces the mask of padding by one of each query: a token sees the tokens up to itself, and padding sees
// every position.
void ChatGlmModel::add_fields(const nn::BatchFields&, State& state) const {
  const at::Tensor padding = nn::find_or_undefined(state, nn::kAttentionMask);  // (N, 1, 1, T)
  if (!padding.defined() || nn::are_document_begins(padding)) return;
  const at::Tensor tokens = padding.eq(0);
  const at::Tensor earlier = at::ones({padding.size(-1), padding.size(-1)}, tokens.options()).tril();
  const at::Tensor allowed = tokens.logical_and(earlier).logical_or(tokens.logical_not().transpose(-1, -2));
  state.set(nn::kAttentionMask, nn::additive_mask(allowed, traits().dtype));
}

// The defaults of torch.nn.Embedding, torch.nn.Linear and the norms.
nn::Initial ChatGlmModel::initial(std::string_view parameter) const {
  const auto within = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  if (parameter.ends_with("layernorm.bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("layernorm.weight")) return nn::Initial::constant(1);
  if (within("word_embeddings")) return nn::Initial::normal(0, 1);
  const int64_t in = within("self_attention.dense.") ? glm_.num_attention_heads * glm_.kv_channels
                     : within("dense_4h_to_h")       ? glm_.ffn_hidden_size
                                                     : glm_.hidden_size;
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return nn::Initial::uniform(-bound, bound);
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  const ChatGlmConfig glm = ChatGlmConfig::read(config);
  if (glm.fp32_residual_connection && at::isReducedFloatingType(dtype))
    throw Error(
        WEFT_UNIMPLEMENTED,
        config.origin() +
            ": \"fp32_residual_connection\" is true, but the model is in half precision, whose residuals "
            "Weft's ChatGLM2 does not keep in fp32; set it to false, or train in fp32");
  return std::make_shared<ChatGlmModel>(
      config, glm, nn::find_architecture(kArchitectures, "chatglm", architecture), dtype);
}

}  // namespace weft::chatglm
