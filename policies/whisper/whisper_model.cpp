// The Whisper classes: an encoder of log-mel spectra, a decoder of tokens in some of them, and a head.
#include "whisper_model.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <string>

#include "weft/nn/architecture.hpp"
#include "weft/nn/encoder_decoder.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/sound_model.hpp"
#include "weft/torch/values.hpp"
#include "whisper_heads.hpp"
#include "whisper_layers.hpp"

namespace weft::whisper {

namespace {

constexpr const char* kFrames = "frames";  // (N), the sum of attention_mask

// The input of block `layer`, kept for a weighted sum: (N, S, E).
std::string layer_input(size_t layer) {
  return "layer_input_" + std::to_string(layer);
}

struct HeadSetting {
  torch::nn::Module& model;
  const WhisperConfig& config;
  const nn::Embedding* embed_tokens;  // null without a decoder
  at::ScalarType dtype;
};

std::unique_ptr<nn::Head> language_head(const HeadSetting& setting) {
  const WhisperConfig& config = setting.config;
  return std::make_unique<nn::LanguageHead>(
      setting.model, nn::LanguageHead::Options{
                         .channels = config.d_model,
                         .vocabulary = config.vocab_size,
                         .dtype = setting.dtype,
                         .module = "proj_out",
                         .tied = config.tie_word_embeddings ? setting.embed_tokens : nullptr,
                         .tied_name = "model.decoder.embed_tokens.weight",
                         .shifts = false,
                     });
}

std::unique_ptr<nn::Head> audio_classifier(const HeadSetting& setting) {
  return make_audio_classifier(setting.model, setting.config, setting.dtype);
}

struct Architecture : nn::Architecture<HeadSetting> {
  bool has_decoder;
};

// Hugging Face's class for classification has its encoder beside the head, without a base model around it.
constexpr std::array<Architecture, 3> kArchitectures = {{
    {{"WhisperModel", "", nn::base_head<HeadSetting>}, true},
    {{"WhisperForConditionalGeneration", "model.", language_head}, true},
    {{"WhisperForAudioClassification", "", audio_classifier}, false},
}};

// Log-mel spectra. Classes with a decoder take an attention mask of the frames too, to which nothing attends:
// as in Hugging Face it only limits the spans of SpecAugment.
class SpectrumInputs final : public nn::Inputs {
 public:
  SpectrumInputs(const WhisperConfig& config, bool has_mask, at::ScalarType dtype)
      : features_(nn::make_dense_inputs({.name = nn::kSpectra,
                                         .sample_shape = {config.num_mel_bins, config.frames()},
                                         .positions = config.max_source_positions,
                                         .dtype = dtype})),
        frames_(config.frames()),
        has_mask_(has_mask),
        augments_(config.spec_augment.on) {}

  std::vector<std::string> fields() const override {
    if (has_mask_) return {nn::kSpectra, nn::kAttentionMask};
    return features_->fields();
  }
  std::vector<std::string> consumed() const override { return {nn::kSpectra, kFrames}; }
  void read(const nn::BatchFields& batch, State& state) const override {
    features_->read(batch, state);
    if (!has_mask_ || !batch.has(nn::kAttentionMask)) return;
    batch.require_shape(nn::kAttentionMask, {{state.at(nn::kSpectra).size(0), frames_}});
    const at::Tensor& mask = batch.batch().at(nn::kAttentionMask);
    if (!values_of<bool>(mask.eq(0).logical_or(mask.eq(1)).all()).front())
      batch.refuse(nn::kAttentionMask, "it has values beside 1 (a frame of the recording) and 0 (padding)");
    if (augments_) state.set(kFrames, mask.to(at::kLong).sum(-1));
  }
  std::vector<int64_t> shape(const Batch& batch) const override { return features_->shape(batch); }
  void add_example(int64_t samples, int64_t positions, Batch& batch) const override {
    features_->add_example(samples, positions, batch);
  }

 private:
  const std::unique_ptr<nn::Inputs> features_;
  const int64_t frames_;
  const bool has_mask_, augments_;
};

class WhisperModel final : public nn::EncoderDecoderModel, public nn::SoundModel {
 public:
  WhisperModel(const Config& config, const WhisperConfig& whisper, const Architecture& architecture,
               at::ScalarType dtype);

  std::optional<Batch> example(int64_t samples, int64_t positions) const override {
    return EncoderDecoderModel::example(samples, std::min(positions, whisper_.max_target_positions));
  }
  nn::Initial initial(std::string_view parameter) const override;
  bool frozen(std::string_view parameter) const override { return is_sinusoids(parameter); }
  bool may_begin_new(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

  int64_t mel_bins() const override { return whisper_.num_mel_bins; }
  int64_t frames() const override { return whisper_.frames(); }
  std::vector<std::string> feature_extractors() const override { return {"WhisperFeatureExtractor"}; }
  std::optional<Transcripts> transcripts() const override {
    if (!decoder_ || head().fields().empty()) return std::nullopt;
    return Transcripts{whisper_.vocab_size, whisper_.max_target_positions, whisper_.decoder_start_token_id};
  }

 private:
  static bool is_sinusoids(std::string_view parameter) {
    return parameter.ends_with("encoder.embed_positions.weight");
  }
  Stack encoder_units() const;
  Stack decoder_units() const;
  std::unique_ptr<nn::Unit> make_prologue() const;
  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;

  const WhisperConfig whisper_;
  std::unique_ptr<EncoderLayers> encoder_;
  std::unique_ptr<DecoderLayers> decoder_;  // may be null
};

WhisperModel::WhisperModel(const Config& config, const WhisperConfig& whisper,
                           const Architecture& architecture, at::ScalarType dtype)
    : EncoderDecoderModel(
          config, {std::string(architecture.name), std::string(architecture.prefix), whisper.d_model, dtype},
          {.start = whisper.decoder_start_token_id, .padding = whisper.pad_token_id}),
      whisper_(whisper) {
  const bool has_decoder = architecture.has_decoder;
  encoder_ = std::make_unique<EncoderLayers>(nn::submodule(base(), "encoder"), whisper_, has_decoder, dtype);
  if (has_decoder)
    decoder_ = std::make_unique<DecoderLayers>(nn::submodule(base(), "decoder"), whisper_, dtype);
  const nn::Embedding* const embed_tokens = decoder_ ? decoder_->embed_tokens.get() : nullptr;
  std::unique_ptr<nn::Head> head = architecture.make_head({*this, whisper_, embed_tokens, dtype});
  auto spectra = std::make_unique<SpectrumInputs>(whisper_, has_decoder, dtype);
  if (!decoder_) {
    assemble(make_prologue(), std::move(spectra), encoder_units(), std::move(head));
    return;
  }
  auto tokens = std::make_unique<nn::TokenInputs>(nn::TokenOptions{.vocabulary = whisper.vocab_size,
                                                                   .positions = whisper.max_target_positions,
                                                                   .positions_key = "max_target_positions",
                                                                   .packs = true,
                                                                   .decoder = true,
                                                                   .dtype = dtype});
  assemble(make_prologue(), std::move(spectra), encoder_units(), std::move(tokens), decoder_units(),
           std::move(head));
}

// Returns the unit that computes the convolutions of the encoder and the embeddings of the decoder.
std::unique_ptr<nn::Unit> WhisperModel::make_prologue() const {
  std::vector<torch::nn::Module*> modules = {encoder_->places.stream_begin.get(), encoder_->conv1.get(),
                                             encoder_->conv2.get()};
  if (decoder_)
    for (torch::nn::Module* module : decoder_->modules()) modules.push_back(module);
  return nn::make_unit("prologue", std::move(modules),
                       [encoder = encoder_.get(), decoder = decoder_.get()](State& state) {
                         const auto take_if_any = [&](const char* name) {
                           return state.has(name) ? nn::take(state, name) : at::Tensor();
                         };
                         const at::Tensor features = take_if_any(nn::kSpectra), frames = take_if_any(kFrames);
                         if (features.defined()) state.set(nn::kHidden, encoder->convolved(features, frames));
                         if (!decoder) return;
                         const at::Tensor ids = nn::take(state, nn::kDecoderInputIds);
                         const at::Tensor positions = take_if_any(nn::kDecoderPositions);
                         state.set(nn::kDecoderHidden, decoder->embedded(ids, positions));
                       });
}

// The positions, which are not trained, are a unit of their own, because strategies keep the parameters of a
// unit together.
//
// With a weighted sum, each block keeps its input, and a unit after the blocks puts these and the normalized
// output side by side. The head weighs them after the end of the sequence, so its weights see all positions.
nn::EncoderDecoderModel::Stack WhisperModel::encoder_units() const {
  const bool weighs = whisper_.use_weighted_layer_sum;
  Stack stack = {{}, weighs ? nn::LastLayers() : nn::last_layer(encoder_->layer_norm), encoder_->places};
  EncoderLayers* const encoder = encoder_.get();
  stack.blocks.push_back(nn::make_unit(
      "encoder.embed_positions",
      {encoder->embed_positions.get(), encoder->dropout.get(), encoder->stream_split.get()},
      [encoder](State& state) { state.set(nn::kHidden, encoder->placed(state.at(nn::kHidden))); }));
  const size_t layers = encoder_->blocks.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    Block* const block = encoder_->blocks[layer].get();
    stack.blocks.push_back(nn::make_unit("encoder.layers." + std::to_string(layer), {block},
                                         [block, layer, weighs](State& state) {
                                           const at::Tensor hidden = state.at(nn::kHidden);
                                           if (weighs) state.set(layer_input(layer), hidden);
                                           state.set(nn::kHidden, (*block)(hidden));
                                         }));
  }
  if (!weighs) return stack;
  nn::LayerNorm* const norm = encoder_->layer_norm.get();
  stack.blocks.push_back(nn::make_unit("encoder.layer_norm", {norm}, [norm, layers](State& state) {
    std::vector<at::Tensor> all;
    for (size_t layer = 0; layer < layers; ++layer) all.push_back(nn::take(state, layer_input(layer)));
    all.push_back((*norm)(state.at(nn::kHidden)));
    state.set(nn::kHidden, at::cat(all, -1));
  }));
  return stack;
}

nn::EncoderDecoderModel::Stack WhisperModel::decoder_units() const {
  Stack stack = {{}, nn::last_layer(decoder_->layer_norm), decoder_->places};
  for (size_t layer = 0; layer < decoder_->blocks.size(); ++layer) {
    Block* const block = decoder_->blocks[layer].get();
    stack.blocks.push_back(
        nn::make_unit("decoder.layers." + std::to_string(layer), {block}, [block](State& state) {
          const at::Tensor padding = nn::find_or_undefined(state, nn::kDecoderAttentionMask);
          state.set(nn::kHidden, (*block)(state.at(nn::kHidden), state.at(nn::kSource), padding));
        }));
  }
  return stack;
}

std::vector<nn::ComposedModel::Passed> WhisperModel::made_fields(const Batch& batch,
                                                                 const State& input) const {
  std::vector<Passed> made = EncoderDecoderModel::made_fields(batch, input);
  // Enters the unit that splits the positions.
  Passed whole = made.front();
  whole.last = whole.first;
  whole.field.division = nn::FieldShape::Division::kNone;
  whole.field.sequence.clear();
  ++made.front().first;
  if (whisper_.use_weighted_layer_sum) {
    const size_t end = encoder_end(), norm = end - 1, block = made.front().first;  // indices of units
    Passed all = made.front();
    all.first = end;
    all.field.shape.back() *= whisper_.encoder_layers + 1;
    made.front().last = norm;
    for (size_t layer = 0; block + layer < norm; ++layer) {
      Passed kept = {made.front().field, block + layer + 1, norm};
      kept.field.name = layer_input(layer);
      made.push_back(std::move(kept));
    }
    made.push_back(std::move(all));
  }
  made.insert(made.begin(), std::move(whole));
  return made;
}

// See _init_weights in transformers/models/whisper/modeling_whisper.py.
nn::Initial WhisperModel::initial(std::string_view parameter) const {
  if (is_sinusoids(parameter)) return nn::Initial::sinusoids(whisper_.d_model);
  if (parameter == "layer_weights")
    return nn::Initial::constant(1 / static_cast<double>(whisper_.encoder_layers + 1));
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("layer_norm.weight")) return nn::Initial::constant(1);
  const nn::Initial weights = nn::Initial::normal(0, whisper_.init_std);
  if (!parameter.ends_with("embed_tokens.weight")) return weights;
  return weights.with_padding(whisper_.pad_token_id, whisper_.d_model);
}

// The class for classification has its head beside the encoder, without a prefix.
bool WhisperModel::may_begin_new(std::string_view parameter) const {
  if (decoder_) return EncoderDecoderModel::may_begin_new(parameter);
  return !parameter.starts_with("encoder.");
}

// The files of a model with a decoder, of which a classifier takes the encoder.
bool WhisperModel::ignored_on_load(std::string_view entry) const {
  if (decoder_) return false;
  return entry.starts_with("decoder.") || entry.starts_with("model.decoder.") || entry == "proj_out.weight";
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  const Architecture& found = nn::find_architecture(kArchitectures, "whisper", architecture);
  return std::make_shared<WhisperModel>(config, WhisperConfig::read(config, found.has_decoder), found, dtype);
}

}  // namespace weft::whisper
