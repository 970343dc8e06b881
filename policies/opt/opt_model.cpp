// OPT (Zhang et al., OPT: open pre-trained transformer language models, arXiv:2205.01068): token embeddings
// and learned positions, then blocks of attention and MLP with norms before or after each. Shapes: N rows, T
// positions, C = hidden_size, W = word_embed_proj_dim, H heads.
#include "opt_model.hpp"

#include <ATen/ops/arange.h>

#include <array>

#include "opt_config.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::opt {

namespace {

// The row of position 0 in embed_positions. Row 1 is that of padding, whose position is -1.
constexpr int64_t kOffset = 2;

std::shared_ptr<nn::LayerNorm> make_norm(const OptConfig& config, at::ScalarType dtype) {
  return std::make_shared<nn::LayerNorm>(config.hidden_size, 1e-5, dtype,
                                         config.layer_norm_elementwise_affine);
}

class Attention : public nn::Attention {
 public:
  Attention(const OptConfig& config, at::ScalarType dtype);
  // Computes causal attention. x: (N, T, C) -> (N, T, C); `mask` broadcasts to (N, H, T, T), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }

  int64_t num_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> k_proj, v_proj, q_proj, out_proj;
  std::shared_ptr<nn::Dropout> attn_dropout;  // of the probabilities
};

class Block : public nn::Layer {
 public:
  Block(const OptConfig& config, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const;  // (N, T, C) -> (N, T, C)
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Attention> self_attn;
  std::shared_ptr<nn::Activation> activation_fn;
  std::shared_ptr<nn::LayerNorm> self_attn_layer_norm, final_layer_norm;
  std::shared_ptr<nn::Linear> fc1, fc2;
  std::shared_ptr<nn::Dropout> dropout;  // of what attention and MLP add

 private:
  const bool norm_before_;
};

Attention::Attention(const OptConfig& config, at::ScalarType dtype) : num_heads(config.num_attention_heads) {
  const auto linear = [&](const char* name) {
    return register_module(name, std::make_shared<nn::Linear>(config.hidden_size, config.hidden_size,
                                                              config.enable_bias, dtype));
  };
  k_proj = linear("k_proj");
  v_proj = linear("v_proj");
  q_proj = linear("q_proj");
  out_proj = linear("out_proj");
  attn_dropout =
      register_module("attn_dropout", std::make_shared<nn::AttentionDropout>(config.attention_dropout));
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const std::vector<at::Tensor> mixed = nn::linears(x, {q_proj.get(), k_proj.get(), v_proj.get()});
  const auto heads = [&](size_t i) { return mixed[i].unflatten(-1, {num_heads, -1}); };
  nn::AttentionOptions options;
  options.causal = true;
  if (is_training()) options.dropout = attn_dropout->probability;
  return (*out_proj)(attend(heads(0), heads(1), heads(2), mask, options));
}

Block::Block(const OptConfig& config, at::ScalarType dtype) : norm_before_(config.do_layer_norm_before) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, config.enable_bias, dtype));
  };
  self_attn = register_module("self_attn", std::make_shared<Attention>(config, dtype));
  activation_fn =
      register_module("activation_fn", std::make_shared<nn::Activation>(config.activation_function));
  self_attn_layer_norm = register_module("self_attn_layer_norm", make_norm(config, dtype));
  fc1 = linear("fc1", config.hidden_size, config.ffn_dim);
  fc2 = linear("fc2", config.ffn_dim, config.hidden_size);
  final_layer_norm = register_module("final_layer_norm", make_norm(config, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.dropout));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& mask) const {
  const auto mlp = [&](const at::Tensor& y) { return (*fc2)(activation_fn->of_linear(*fc1, y)); };
  if (norm_before_) {
    const nn::Branch first = self_attn_layer_norm->branch(x);
    const nn::Branch second =
        final_layer_norm->branch(dropout->added(first.kept, (*self_attn)(first.normed, mask)));
    return dropout->added(second.kept, mlp(second.normed));
  }
  const at::Tensor attended = (*self_attn_layer_norm)(dropout->added(x, (*self_attn)(x, mask)));
  return (*final_layer_norm)(dropout->added(attended, mlp(attended)));
}

// Returns the position of each token among those of its row that the additive `mask` (N, 1, 1, T) attends to,
// and -1 for padding: (N, T), or (1, T) if the mask is undefined. All positions of the sequence are needed,
// so this comes before it is split.
at::Tensor positions_of(const at::Tensor& ids, const at::Tensor& mask) {
  if (!mask.defined()) return at::arange(ids.size(1), ids.options()).unsqueeze(0);
  const at::Tensor attended = mask.flatten(1).eq(0).to(at::kLong);
  return attended.cumsum(1) * attended - 1;
}

using HeadSetting = nn::HeadSetting<OptConfig>;

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  return std::make_unique<nn::LanguageHead>(
      setting.model,
      nn::language_options(setting, setting.config.word_embed_proj_dim, "model.decoder.embed_tokens.weight"));
}
std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting) {
  const OptConfig& config = setting.config;
  return nn::make_sequence_classifier(setting.model, config.word_embed_proj_dim, config.labels,
                                      config.pad_token_id, setting.dtype);
}
std::unique_ptr<nn::Head> answer_head(const HeadSetting& setting) {
  return nn::make_answer_head(setting.model, setting.config.word_embed_proj_dim, setting.dtype);
}

using Architecture = nn::Architecture<HeadSetting>;

constexpr std::array<Architecture, 4> kArchitectures = {{
    {"OPTModel", "", nn::base_head<HeadSetting>},
    {"OPTForCausalLM", "model.", language_head},
    {"OPTForSequenceClassification", "model.", sequence_classifier},
    {"OPTForQuestionAnswering", "model.", answer_head},
}};

class OptModel final : public nn::TokenStackModel {
 public:
  OptModel(const Config& config, const OptConfig& opt, const Architecture& architecture,
           at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

 private:
  std::unique_ptr<nn::Unit> make_prologue(torch::nn::Module& decoder);
  nn::LastLayers make_last(torch::nn::Module& decoder) const;
  std::shared_ptr<nn::Linear> projection(int64_t in, int64_t out) const {
    return std::make_shared<nn::Linear>(in, out, /*bias=*/false, traits().dtype);
  }

  const OptConfig opt_;
  std::shared_ptr<nn::Embedding> embed_tokens_;
};

// As in Hugging Face position_ids choose rows of embed_positions and mark no documents.
OptModel::OptModel(const Config& config, const OptConfig& opt, const Architecture& architecture,
                   at::ScalarType dtype)
    : TokenStackModel(
          config, {std::string(architecture.name), std::string(architecture.prefix), opt.hidden_size, dtype},
          {.vocabulary = opt.vocab_size,
           .positions = opt.max_position_embeddings,
           .positions_key = "max_position_embeddings",
           .packs = true,
           .positions_mark_documents = false}),
      opt_(opt) {
  torch::nn::Module& decoder = nn::submodule(base(), "decoder");
  std::unique_ptr<nn::Unit> prologue = make_prologue(decoder);
  nn::LastLayers last = make_last(decoder);
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "decoder.layers", opt.num_hidden_layers,
      [&](int64_t) { return std::make_shared<Block>(opt_, dtype); }, nn::run_masked<Block>);
  assemble(std::move(prologue), std::move(blocks), std::move(last),
           architecture.make_head({*this, *embed_tokens_, opt_, dtype}));
}

std::unique_ptr<nn::Unit> OptModel::make_prologue(torch::nn::Module& decoder) {
  const int64_t width = opt_.word_embed_proj_dim, channels = opt_.hidden_size;
  embed_tokens_ = decoder.register_module(
      "embed_tokens",
      std::make_shared<nn::Embedding>(opt_.vocab_size, width, traits().dtype, opt_.padding_row()));
  const auto embed_positions = decoder.register_module(
      "embed_positions",
      std::make_shared<nn::Embedding>(opt_.max_position_embeddings + kOffset, channels, traits().dtype));
  std::vector<torch::nn::Module*> modules = {embed_tokens_.get(), embed_positions.get()};
  std::shared_ptr<nn::Linear> project_in;
  if (opt_.projects()) {
    project_in = decoder.register_module("project_in", projection(width, channels));
    modules.push_back(project_in.get());
  }
  return nn::make_unit("prologue", std::move(modules),
                       [embed_tokens = embed_tokens_.get(), embed_positions = embed_positions.get(),
                        project_in = project_in.get()](State& state) {
                         const at::Tensor ids = nn::take(state, nn::kInputIds);
                         const at::Tensor mask = nn::find_or_undefined(state, nn::kAttentionMask);
                         const at::Tensor positions = state.has(nn::kPositions)
                                                          ? nn::take(state, nn::kPositions)
                                                          : positions_of(ids, mask);
                         at::Tensor hidden = (*embed_tokens)(ids);
                         if (project_in) hidden = (*project_in)(hidden);
                         state.set(nn::kHidden, hidden + (*embed_positions)(positions + kOffset));
                       });
}

nn::LastLayers OptModel::make_last(torch::nn::Module& decoder) const {
  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Linear> project_out;
  std::vector<torch::nn::Module*> modules;
  if (opt_.has_final_norm()) {
    norm = decoder.register_module("final_layer_norm", make_norm(opt_, traits().dtype));
    modules.push_back(norm.get());
  }
  if (opt_.projects()) {
    project_out =
        decoder.register_module("project_out", projection(opt_.hidden_size, opt_.word_embed_proj_dim));
    modules.push_back(project_out.get());
  }
  return {[norm = norm.get(), project_out = project_out.get()](const at::Tensor& x) {
            const at::Tensor normed = norm ? (*norm)(x) : x;
            return project_out ? (*project_out)(normed) : normed;
          },
          std::move(modules)};
}

nn::Initial OptModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("layer_norm.weight")) return nn::Initial::constant(1);
  const nn::Initial weights = nn::Initial::normal(0, opt_.init_std);
  if (!parameter.ends_with("embed_tokens.weight")) return weights;
  return weights.with_padding(opt_.padding_row(), opt_.word_embed_proj_dim);
}

bool OptModel::ignored_on_load(std::string_view entry) const {
  return entry.ends_with("decoder.version");  // of checkpoints that were converted from fairseq
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<OptModel>(config, OptConfig::read(config),
                                    nn::find_architecture(kArchitectures, "opt", architecture), dtype);
}

}  // namespace weft::opt
