// What models that read recordings have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/nn/batch_fields.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// A model whose encoder reads log-mel spectra (kSpectra) derives from this class beside Model.
class SoundModel {
 public:
  virtual ~SoundModel() = default;
  virtual int64_t mel_bins() const = 0;
  virtual int64_t frames() const = 0;  // of each spectrum
  // Returns the names of Hugging Face's feature extractors for this model, as preprocessor_config.json has
  // them, that do what weft::data::SpectrumProcessing describes and have its defaults.
  virtual std::vector<std::string> feature_extractors() const = 0;
  // What a decoder that learns transcripts takes.
  struct Transcripts {
    int64_t vocabulary = 0;
    int64_t most_tokens = 0;          // of one transcript
    std::optional<int64_t> start_id;  // the decoder begins with it
  };
  // Returns nothing if the model learns classes, or has no loss.
  virtual std::optional<Transcripts> transcripts() const = 0;
};

// Returns `model` as a SoundModel, or null if it has other inputs.
const SoundModel* find_sound_model(const Model& model);

}  // namespace weft::nn
