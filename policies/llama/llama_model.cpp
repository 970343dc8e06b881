#include "llama_model.hpp"

#include <array>
#include <string>

#include "weft/nn/architecture.hpp"

namespace weft::llama {

namespace {

std::unique_ptr<nn::Head> make_base_head(LlamaModel&) {
  return nn::make_base_head();
}

std::unique_ptr<nn::Head> make_language_head(LlamaModel& model) {
  const LlamaConfig& llama = model.llama();
  nn::LanguageHead::Options options = {llama.hidden_size, llama.vocab_size, model.dtype()};
  if (llama.tie_word_embeddings) {
    options.tied = &model.embed_tokens();
    options.tied_name = "model.embed_tokens.weight";
  }
  return std::make_unique<nn::LanguageHead>(model, options);
}

std::unique_ptr<nn::Head> make_classifier(LlamaModel& model) {
  const LlamaConfig& llama = model.llama();
  return nn::make_sequence_classifier(model, llama.hidden_size, llama.labels, llama.pad_token_id,
                                      model.dtype());
}

constexpr std::array<LlamaModel::Architecture, 3> kArchitectures = {{
    {"LlamaModel", "", make_base_head},
    {"LlamaForCausalLM", "model.", make_language_head},
    {"LlamaForSequenceClassification", "model.", make_classifier},
}};

nn::DecoderTraits traits_of(const LlamaConfig& llama, const LlamaModel::Architecture& architecture,
                            at::ScalarType dtype) {
  return {.architecture = std::string(architecture.name),
          .prefix = std::string(architecture.prefix),
          .channels = llama.hidden_size,
          .vocabulary = llama.vocab_size,
          .positions = llama.max_position_embeddings,
          .positions_key = "max_position_embeddings",
          .packs = !llama.use_cache,
          .blocks_need_positions = true,
          .dtype = dtype};
}

class Prologue final : public nn::Unit {
 public:
  explicit Prologue(nn::Embedding& embed_tokens) : Unit("prologue"), embed_tokens_(uses(embed_tokens)) {}
  void forward(State& state) override {
    state.set(nn::kHidden, embed_tokens_(nn::take(state, nn::kInputIds)));
  }

 private:
  const nn::Embedding& embed_tokens_;
};

}  // namespace

LlamaModel::LlamaModel(const Config& config, LlamaConfig llama, const Architecture& architecture,
                       at::ScalarType dtype)
    : DecoderModel(config, traits_of(llama, architecture, dtype)), llama_(std::move(llama)), dtype_(dtype) {
  embed_tokens_ = base().register_module(
      "embed_tokens",
      std::make_shared<nn::Embedding>(llama_.vocab_size, llama_.hidden_size, dtype, llama_.padding_row()));
  const auto rotary = std::make_shared<const nn::Rotary>(llama_.rotary, llama_.head_dim);
  const auto list = base().register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  std::vector<std::unique_ptr<nn::Unit>> blocks;
  for (int64_t layer = 0; layer < llama_.num_hidden_layers; ++layer) {
    const std::string name = std::to_string(layer);
    const auto block = list->register_module(name, std::make_shared<Block>(llama_, rotary, dtype));
    blocks.push_back(std::make_unique<BlockUnit>("layers." + name, *block));
  }
  const auto norm = base().register_module(
      "norm", std::make_shared<nn::RmsNorm>(llama_.hidden_size, llama_.rms_norm_eps, dtype));
  assemble(std::make_unique<Prologue>(*embed_tokens_), std::move(blocks), *norm,
           architecture.make_head(*this));
}

nn::Initial LlamaModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("norm.weight")) return nn::Initial::constant(1);
  // Hugging Face takes 0 for no value here.
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

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<LlamaModel>(config, LlamaConfig::read(config),
                                      nn::find_architecture(kArchitectures, "llama", architecture), dtype);
}

}  // namespace weft::llama
