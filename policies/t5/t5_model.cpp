// The T5 classes: an encoder, a decoder in some of them, and a head.
#include "t5_model.hpp"

#include <array>
#include <cmath>
#include <string>

#include "t5_layers.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/encoder_decoder.hpp"
#include "weft/nn/language_head.hpp"

namespace weft::t5 {

namespace {

constexpr const char* kPositionBias = "position_bias";  // the result of Attention::position_bias()

using HeadSetting = nn::HeadSetting<T5Config>;

double inverse_root(int64_t channels) {
  return 1 / std::sqrt(static_cast<double>(channels));
}

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  const T5Config& config = setting.config;
  return std::make_unique<nn::LanguageHead>(
      setting.model, nn::LanguageHead::Options{
                         .channels = config.d_model,
                         .vocabulary = config.vocab_size,
                         .dtype = setting.dtype,
                         .tied = config.tied ? &setting.embedding : nullptr,
                         .tied_name = "shared.weight",
                         .shifts = false,
                         .scale = config.scale_decoder_outputs ? inverse_root(config.d_model) : 1,
                     });
}

std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting) {
  const T5Config& config = setting.config;
  return nn::make_token_classifier(setting.model, config.d_model, config.labels, config.classifier_dropout,
                                   setting.dtype);
}

struct Architecture : nn::Architecture<HeadSetting> {
  bool has_decoder;
};

constexpr std::array<Architecture, 4> kArchitectures = {{
    {{"T5Model", "", nn::base_head<HeadSetting>}, true},
    {{"T5ForConditionalGeneration", "", language_head}, true},
    {{"T5EncoderModel", "", nn::base_head<HeadSetting>}, false},
    {{"T5ForTokenClassification", "transformer.", token_classifier}, false},
}};

// The layers of the encoder or the decoder: an embedding, blocks, and a norm. Registers them in `root` under
// Hugging Face's names.
struct StackLayers {
  StackLayers(torch::nn::Module& root, Side side, const std::shared_ptr<nn::Embedding>& shared,
              const T5Config& config, at::ScalarType dtype)
      : embed_tokens(root.register_module("embed_tokens", shared)), places(root, side == Side::kEncoder) {
    torch::nn::Module& list = nn::submodule(root, "block");
    const int64_t layers = side == Side::kEncoder ? config.num_layers : config.num_decoder_layers;
    for (int64_t layer = 0; layer < layers; ++layer) {
      blocks.push_back(list.register_module(std::to_string(layer),
                                            std::make_shared<Block>(config, side, layer == 0, dtype)));
    }
    final_layer_norm = root.register_module(
        "final_layer_norm", std::make_shared<nn::RmsNorm>(config.d_model, config.layer_norm_epsilon, dtype));
    dropout = root.register_module("dropout", std::make_shared<nn::Dropout>(config.dropout_rate));
  }
  at::Tensor embedded(const at::Tensor& ids) const {
    const at::Tensor x = (*dropout)((*embed_tokens)((*places.stream_begin)(ids)));
    return x.to(residual_dtype(x.scalar_type()));
  }
  nn::LastLayers last() const {
    return {[norm = final_layer_norm.get(), dropout = dropout.get()](const at::Tensor& x) {
              return (*dropout)((*norm)(x));
            },
            {final_layer_norm.get(), dropout.get()}};
  }

  std::shared_ptr<nn::Embedding> embed_tokens;
  nn::SequencePlaces places;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<nn::RmsNorm> final_layer_norm;
  std::shared_ptr<nn::Dropout> dropout;
};

// Runs a block. The first block of a stack also computes the position bias of all its blocks.
void run_encoder_block(const Block& block, State& state) {
  const at::Tensor hidden = state.at(nn::kHidden);
  const Attention& own = *block.self_attention->inner;
  if (own.relative_attention_bias) {
    const at::Tensor padding = nn::find_or_undefined(state, nn::kAttentionMask);
    state.set(kPositionBias, own.position_bias(hidden.size(1), padding));
  }
  state.set(nn::kHidden, block(hidden, state.at(kPositionBias)));
}

void run_decoder_block(const Block& block, State& state) {
  const at::Tensor hidden = state.at(nn::kHidden);
  const Attention& own = *block.self_attention->inner;
  if (own.relative_attention_bias) {
    const at::Tensor padding = nn::find_or_undefined(state, nn::kDecoderAttentionMask);
    state.erase(nn::kDecoderAttentionMask);
    state.set(kPositionBias, own.position_bias(hidden.size(1), padding));
  }
  const at::Tensor padding = nn::find_or_undefined(state, nn::kAttentionMask);
  state.set(nn::kHidden, block(hidden, state.at(kPositionBias), state.at(nn::kSource), padding));
}

class T5Model final : public nn::EncoderDecoderModel, public nn::TokenModel {
 public:
  T5Model(const Config& config, const T5Config& t5, const Architecture& architecture, at::ScalarType dtype);

  std::vector<nn::Tie> ties() const override;
  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;
  std::vector<Vocabulary> vocabularies() const override;

 private:
  std::unique_ptr<StackLayers> make_stack(const std::string& name, Side side);
  Stack units_of(const std::string& name, Side side, const StackLayers& layers) const;
  std::unique_ptr<nn::TokenInputs> tokens(bool decoder) const;
  std::unique_ptr<nn::Unit> make_prologue() const;
  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;
  size_t last_reader(std::string_view field) const override;

  const T5Config t5_;
  std::shared_ptr<nn::Embedding> shared_;
  std::unique_ptr<StackLayers> encoder_, decoder_;  // the decoder may be null
};

T5Model::T5Model(const Config& config, const T5Config& t5, const Architecture& architecture,
                 at::ScalarType dtype)
    : EncoderDecoderModel(
          config, {std::string(architecture.name), std::string(architecture.prefix), t5.d_model, dtype},
          {.start = t5.decoder_start_token_id, .padding = t5.pad_token_id}),
      t5_(t5) {
  shared_ =
      base().register_module("shared", std::make_shared<nn::Embedding>(t5.vocab_size, t5.d_model, dtype));
  encoder_ = make_stack("encoder", Side::kEncoder);
  if (architecture.has_decoder) decoder_ = make_stack("decoder", Side::kDecoder);
  std::unique_ptr<nn::Head> head = architecture.make_head({*this, *shared_, t5_, dtype});
  std::unique_ptr<nn::Unit> prologue = make_prologue();
  Stack encoder = units_of("encoder.block.", Side::kEncoder, *encoder_);
  if (!decoder_) {
    assemble(std::move(prologue), tokens(false), std::move(encoder), std::move(head));
  } else {
    assemble(std::move(prologue), tokens(false), std::move(encoder), tokens(true),
             units_of("decoder.block.", Side::kDecoder, *decoder_), std::move(head));
  }
}

std::unique_ptr<StackLayers> T5Model::make_stack(const std::string& name, Side side) {
  return std::make_unique<StackLayers>(nn::submodule(base(), name), side, shared_, t5_, traits().dtype);
}

nn::EncoderDecoderModel::Stack T5Model::units_of(const std::string& name, Side side,
                                                 const StackLayers& layers) const {
  Stack stack = {{}, layers.last(), layers.places, {kPositionBias}};
  const auto run = side == Side::kEncoder ? &run_encoder_block : &run_decoder_block;
  for (size_t layer = 0; layer < layers.blocks.size(); ++layer) {
    Block* const block = layers.blocks[layer].get();
    stack.blocks.push_back(nn::make_unit(name + std::to_string(layer), {block},
                                         [run, block](State& state) { run(*block, state); }));
  }
  return stack;
}

std::unique_ptr<nn::TokenInputs> T5Model::tokens(bool decoder) const {
  return std::make_unique<nn::TokenInputs>(nn::TokenOptions{
      .vocabulary = t5_.vocab_size, .position_ids = false, .decoder = decoder, .dtype = traits().dtype});
}

// Returns the unit that embeds the ids of both stacks, so that no later unit needs the embedding.
std::unique_ptr<nn::Unit> T5Model::make_prologue() const {
  std::vector<torch::nn::Module*> modules = {shared_.get()};
  for (const StackLayers* stack : {encoder_.get(), decoder_.get()})
    if (stack) modules.insert(modules.end(), {stack->places.stream_begin.get(), stack->dropout.get()});
  return nn::make_unit(
      "prologue", std::move(modules), [encoder = encoder_.get(), decoder = decoder_.get()](State& state) {
        if (state.has(nn::kInputIds))
          state.set(nn::kHidden, encoder->embedded(nn::take(state, nn::kInputIds)));
        if (decoder) state.set(nn::kDecoderHidden, decoder->embedded(nn::take(state, nn::kDecoderInputIds)));
      });
}

std::vector<Vocabulary> T5Model::vocabularies() const {
  std::vector<Vocabulary> vocabularies = tokens(false)->vocabularies();
  if (decoder_) vocabularies.push_back(tokens(true)->vocabularies().front());
  return vocabularies;
}

std::vector<nn::ComposedModel::Passed> T5Model::made_fields(const Batch& batch, const State& input) const {
  std::vector<Passed> made = EncoderDecoderModel::made_fields(batch, input);
  for (Passed& passed : made)
    if (passed.field.name == nn::kHidden || passed.field.name == nn::kDecoderHidden)
      passed.field.dtype = residual_dtype(traits().dtype);
  const auto add_bias = [&](const StackLayers& stack, const nn::SequenceLength& length, const char* mask,
                            size_t first, size_t last) {
    const int64_t rows = input.has(mask) ? length.rows : 1;
    const int64_t heads = stack.blocks.front()->self_attention->inner->n_heads;  // of this shard
    made.push_back({{kPositionBias,
                     {rows, heads, length.positions, length.positions},
                     traits().dtype,
                     true,
                     nn::FieldShape::Division::kPositionBias,
                     length.name},
                    first,
                    last});
  };
  const std::vector<nn::SequenceLength> lengths = this->lengths(batch);
  add_bias(*encoder_, lengths[0], nn::kAttentionMask, 2, encoder_end());
  if (decoder_)
    add_bias(*decoder_, lengths[1], nn::kDecoderAttentionMask, encoder_end() + 2, num_units() - 1);
  return made;
}

// The first block of the decoder adds the decoder's mask to the position bias and erases it.
size_t T5Model::last_reader(std::string_view field) const {
  return field == nn::kDecoderAttentionMask ? encoder_end() + 1 : EncoderDecoderModel::last_reader(field);
}

std::vector<nn::Tie> T5Model::ties() const {
  const std::string prefix = base_prefix(), shared = prefix + "shared.weight";
  std::vector<nn::Tie> ties = EncoderDecoderModel::ties();
  ties.push_back({prefix + "encoder.embed_tokens.weight", shared});
  if (decoder_) ties.push_back({prefix + "decoder.embed_tokens.weight", shared});
  return ties;
}

nn::Initial T5Model::initial(std::string_view parameter) const {
  const double factor = t5_.initializer_factor;
  const auto normal_of = [&](int64_t channels) {
    return nn::Initial::normal(0, factor * inverse_root(channels));
  };
  if (parameter.ends_with("layer_norm.weight")) return nn::Initial::constant(factor);
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with(".q.weight")) return normal_of(t5_.d_model * t5_.d_kv);
  if (parameter.ends_with(".o.weight")) return normal_of(t5_.num_heads * t5_.d_kv);
  if (parameter.ends_with(".wo.weight")) return normal_of(t5_.d_ff);
  if (parameter.find(".block.") != std::string_view::npos) return normal_of(t5_.d_model);
  return nn::Initial::normal(0, factor);  // the embedding and the heads
}

bool T5Model::ignored_on_load(std::string_view entry) const {
  if (!decoder_ && entry.starts_with("decoder.")) return true;
  return entry == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<T5Model>(config, T5Config::read(config),
                                   nn::find_architecture(kArchitectures, "t5", architecture), dtype);
}

}  // namespace weft::t5
