#include "opening/model_files.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "opening/class_labels.hpp"
#include "sound/sound_folder.hpp"
#include "weft/nn/image_model.hpp"
#include "weft/nn/sound_model.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

data::Transcription transcription_of(const Model& model, const nn::SoundModel::Transcripts& transcripts,
                                     const std::string& path, const std::optional<Tokenizer>& tokenizer,
                                     const SettingName& called) {
  if (!tokenizer)
    fail(
        WEFT_FAILED_PRECONDITION,
        "{}: {} learns the tokens of transcripts, and there is no tokenizer in the folder of the model: give "
        "{}",
        path, model.architecture(), called("tokenizer"));
  if (tokenizer->vocabulary_size() > transcripts.vocabulary)
    fail(WEFT_INVALID_ARGUMENT, "{} has {} tokens, but {} has a vocabulary of {}", tokenizer->name(),
         tokenizer->vocabulary_size(), model.architecture(), transcripts.vocabulary);
  return {*tokenizer, transcripts.start_id, transcripts.most_tokens};
}

}  // namespace

std::string preprocessor_path(const Model& model) {
  return (fs::path(model.config().origin()).parent_path() / kPreprocessorConfig).string();
}

bool is_image_folder(const Model& model, const std::string& path) {
  return nn::find_image_model(model.module()) != nullptr && is_folder(path);
}

bool is_sound_folder(const Model& model, const std::string& path) {
  return nn::find_sound_model(model.module()) != nullptr && is_folder(path);
}

data::SpectrumProcessing spectrum_processing(const Model& model,
                                             const std::function<void(const std::string& line)>& note) {
  const nn::SoundModel& sound = *nn::find_sound_model(model.module());
  const std::string file = preprocessor_path(model);
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const auto processing = data::SpectrumProcessing::load(file, sound.feature_extractors());
    if (processing.feature_size != sound.mel_bins() || processing.frames() != sound.frames())
      fail(WEFT_INVALID_ARGUMENT,
           "{} makes spectra of {} mel bins and {} frames (feature_size, chunk_length), but {} reads {} and "
           "{} (num_mel_bins, twice max_source_positions)",
           file, processing.feature_size, processing.frames(), model.architecture(), sound.mel_bins(),
           sound.frames());
    return processing;
  }
  data::SpectrumProcessing processing;
  processing.feature_size = sound.mel_bins();
  const int64_t frames_per_second = processing.sampling_rate / processing.hop_length;
  if (sound.frames() % frames_per_second != 0)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{} is not there, and {} reads {} frames, which are no whole seconds at {} frames a second: give the "
        "file, or input_features in a .safetensors file",
        file, model.architecture(), sound.frames(), frames_per_second);
  processing.chunk_length = sound.frames() / frames_per_second;
  note(fmt::format("{} is not there: recordings become {} mel bins over {} s, the defaults of {}", file,
                   processing.feature_size, processing.chunk_length, sound.feature_extractors().front()));
  return processing;
}

std::shared_ptr<data::Dataset> open_recordings(const Model& model, const std::string& path, bool labels,
                                               data::SoundOptions options,
                                               const std::optional<Tokenizer>& tokenizer,
                                               const SettingName& called,
                                               const std::function<void(const std::string& line)>& note) {
  const nn::SoundModel& sound = *nn::find_sound_model(model.module());
  options.processing = spectrum_processing(model, note);
  if (const auto transcripts = sound.transcripts()) {
    if (labels) options.transcription = transcription_of(model, *transcripts, path, tokenizer, called);
  } else if (const auto classes = class_labels(model, path, nn::kSpectra)) {
    options.classes = true;
    options.label_of = classes->label_of;
    options.num_labels = classes->count;
  }
  return data::sound_folder(path, options, called);
}

}  // namespace weft
