#include "gpt2_model.hpp"

#include <array>
#include <cmath>

#include "weft/nn/architecture.hpp"

namespace weft::gpt2 {

namespace {

constexpr std::array<Architecture, 6> kArchitectures = {{
    {"GPT2Model", "", make_base_head},
    {"GPT2LMHeadModel", "transformer.", make_language_head},
    {"GPT2DoubleHeadsModel", "transformer.", make_double_heads},
    {"GPT2ForSequenceClassification", "transformer.", make_sequence_classifier},
    {"GPT2ForTokenClassification", "transformer.", make_token_classifier},
    {"GPT2ForQuestionAnswering", "transformer.", make_answer_head},
}};

nn::DecoderTraits traits_of(const Gpt2Config& gpt2, const Architecture& architecture, at::ScalarType dtype) {
  return {.architecture = std::string(architecture.name),
          .prefix = std::string(architecture.prefix),
          .channels = gpt2.n_embd,
          .vocabulary = gpt2.vocab_size,
          .positions = gpt2.n_positions,
          .positions_key = "n_positions",
          .token_types = true,
          .packs = !gpt2.use_cache,
          .dtype = dtype};
}

}  // namespace

Gpt2Model::Gpt2Model(const Config& config, const Architecture& architecture, at::ScalarType dtype)
    : Gpt2Model(config, Gpt2Config::read(config), architecture, dtype) {}

Gpt2Model::Gpt2Model(const Config& config, Gpt2Config gpt2, const Architecture& architecture,
                     at::ScalarType dtype)
    : DecoderModel(config, traits_of(gpt2, architecture, dtype)), gpt2_(std::move(gpt2)) {
  trunk_ = std::make_unique<Trunk>(base(), gpt2_, dtype);
  std::unique_ptr<nn::Head> head = architecture.make_head({*this, *trunk_, gpt2_, dtype});
  std::vector<std::unique_ptr<nn::Unit>> blocks;
  for (size_t layer = 0; layer < trunk_->blocks.size(); ++layer) {
    blocks.push_back(std::make_unique<BlockUnit>("h." + std::to_string(layer), *trunk_->blocks[layer]));
  }
  assemble(std::make_unique<Prologue>(*trunk_), std::move(blocks), *trunk_->ln_f, std::move(head));
}

nn::Initial Gpt2Model::initial(std::string_view parameter) const {
  const auto within = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (within("ln_")) return nn::Initial::constant(1);
  const double range = gpt2_.initializer_range;
  // Residual layers shrink with depth (the paper's section 2.3).
  if (parameter.ends_with("c_proj.weight"))
    return nn::Initial::normal(0, range / std::sqrt(2.0 * gpt2_.n_layer));
  if (within("c_attn") || within("c_fc")) return nn::Initial::normal(0, range);
  // Hugging Face takes 0 for no value here.
  return nn::Initial::normal(0, range == 0 ? 0.02 : range);
}

bool Gpt2Model::ignored_on_load(std::string_view entry) const {
  return entry.ends_with(".attn.bias") || entry.ends_with(".attn.masked_bias");
}

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<Gpt2Model>(config, nn::find_architecture(kArchitectures, "gpt2", architecture),
                                     dtype);
}

}  // namespace weft::gpt2
