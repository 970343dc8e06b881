// Gemma 2, as an author of a family writes it of the parts of a decoder: soft caps of scores and logits. The
// weights of its norms have the 1 in them that Hugging Face adds in forward.
#include <cmath>
#include <string>

#include "weft/nn/architecture.hpp"
#include "weft/nn/decoder_parts.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::gemma2 {

namespace {

class Block final : public nn::Layer {
 public:
  Block(const nn::RotaryDecoderConfig& config, int64_t window, nn::SharedRotary rotary, at::ScalarType dtype)
      : self_attn(register_module(
            "self_attn", std::make_shared<nn::GroupedAttention>(config, window, std::move(rotary), dtype))),
        mlp(register_module("mlp", std::make_shared<nn::GatedMlp>(config, dtype))),
        input_layernorm(norm("input_layernorm", config, dtype)),
        post_attention_layernorm(norm("post_attention_layernorm", config, dtype)),
        pre_feedforward_layernorm(norm("pre_feedforward_layernorm", config, dtype)),
        post_feedforward_layernorm(norm("post_feedforward_layernorm", config, dtype)) {}
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& mask) const {
    const at::Tensor attended =
        x + (*post_attention_layernorm)((*self_attn)((*input_layernorm)(x), positions, mask));
    return attended + (*post_feedforward_layernorm)((*mlp)((*pre_feedforward_layernorm)(attended)));
  }
  std::string kind() const override { return "Block"; }

  std::shared_ptr<nn::GroupedAttention> self_attn;
  std::shared_ptr<nn::GatedMlp> mlp;
  std::shared_ptr<nn::RmsNorm> input_layernorm, post_attention_layernorm, pre_feedforward_layernorm,
      post_feedforward_layernorm;

 private:
  std::shared_ptr<nn::RmsNorm> norm(const char* name, const nn::RotaryDecoderConfig& config,
                                    at::ScalarType dtype) {
    return register_module(name,
                           std::make_shared<nn::RmsNorm>(config.hidden_size, config.rms_norm_eps, dtype));
  }
};

using Setting = nn::HeadSetting<nn::RotaryDecoderConfig>;

std::unique_ptr<nn::Head> language_head(const Setting& setting) {
  nn::LanguageHead::Options options =
      nn::language_options(setting, setting.config.hidden_size, "model.embed_tokens.weight");
  options.soft_cap = setting.config.logit_soft_cap;
  return std::make_unique<nn::LanguageHead>(setting.model, options);
}

using Architecture = nn::Architecture<Setting>;
constexpr std::array<Architecture, 2> kArchitectures = {{
    {"Gemma2Model", "", nn::base_head<Setting>},
    {"Gemma2ForCausalLM", "model.", language_head},
}};

class Gemma2 final : public nn::TokenStackModel {
 public:
  Gemma2(const Config& config, const nn::RotaryDecoderConfig& decoder, const Architecture& architecture,
         at::ScalarType dtype)
      : TokenStackModel(
            config,
            {std::string(architecture.name), std::string(architecture.prefix), decoder.hidden_size, dtype},
            {.vocabulary = decoder.vocab_size,
             .positions = decoder.max_position_embeddings,
             .positions_key = "max_position_embeddings",
             .blocks_need_positions = true,
             .packs = true}) {
    const auto embed_tokens = base().register_module(
        "embed_tokens", std::make_shared<nn::Embedding>(decoder.vocab_size, decoder.hidden_size, dtype,
                                                        decoder.padding_row()));
    const double scale = std::sqrt(static_cast<double>(decoder.hidden_size));
    auto prologue =
        nn::make_unit("prologue", {embed_tokens.get()}, [embed = embed_tokens.get(), scale](State& state) {
          state.set(nn::kHidden, (*embed)(nn::take(state, nn::kInputIds)) * scale);
        });
    const auto rotary = std::make_shared<const nn::Rotary>(decoder.rotary, decoder.head_dim);
    auto blocks = nn::make_blocks(
        base(), "layers", decoder.num_hidden_layers,
        [&](int64_t layer) {
          return std::make_shared<Block>(decoder, decoder.windows.at(static_cast<size_t>(layer)), rotary,
                                         dtype);
        },
        nn::run_placed<Block>);
    const auto norm = base().register_module(
        "norm", std::make_shared<nn::RmsNorm>(decoder.hidden_size, decoder.rms_norm_eps, dtype));
    assemble(std::move(prologue), std::move(blocks), nn::last_layer(norm),
             architecture.make_head({*this, *embed_tokens, decoder, dtype}));
  }
  nn::Initial initial(std::string_view parameter) const override {
    return parameter.ends_with("norm.weight") ? nn::Initial::constant(1) : nn::Initial::normal(0, 0.02);
  }
};

// As "attn_logit_softcapping" and "final_logit_softcapping" say: null is no cap.
double read_cap(const Config& config, const char* key, double otherwise) {
  return config.json(key) == "null" ? 0 : config.real(key, otherwise);
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  nn::RotaryDecoderConfig gemma;
  gemma.hidden_act = config.text("hidden_activation", "gelu_pytorch_tanh");
  gemma.tie_word_embeddings = true;
  gemma.read(config, "Gemma2", "gemma2");
  gemma.attention_scale = 1 / std::sqrt(config.real("query_pre_attn_scalar", 256));
  gemma.attention_soft_cap = read_cap(config, "attn_logit_softcapping", 50);
  gemma.logit_soft_cap = read_cap(config, "final_logit_softcapping", 30);
  gemma.read_windows(config, nn::RotaryDecoderConfig::read_window(config, 4096), 0);
  return std::make_shared<Gemma2>(config, gemma,
                                  nn::find_architecture(kArchitectures, "Gemma2", architecture), dtype);
}

}  // namespace weft::gemma2
