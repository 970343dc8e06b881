// What models that read files, such as images or recordings, have in common.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/setting_name.hpp"
#include "weft/data/sound.hpp"
#include "weft/model.hpp"

namespace weft {

// The name of the file beside config.json that says how images become pixels, or recordings spectra.
inline constexpr const char* kPreprocessorConfig = "preprocessor_config.json";

// Returns the path of that file beside the configuration of `model`, whether it exists or not.
std::string preprocessor_path(const Model& model);

// Return true if `path` is a folder and `model` reads images, or recordings.
bool is_image_folder(const Model& model, const std::string& path);
bool is_sound_folder(const Model& model, const std::string& path);
inline bool is_folder_of_files(const Model& model, const std::string& path) {
  return is_image_folder(model, path) || is_sound_folder(model, path);
}

// Returns how recordings become the spectra that `model` reads: as its preprocessor_config.json says, or,
// without one, as its usual extractor does with the model's sizes; `note` is called with a line that says so.
// Throws INVALID_ARGUMENT if the spectra are not the model's.
data::SpectrumProcessing spectrum_processing(const Model& model,
                                             const std::function<void(const std::string& line)>& note);

// Opens a folder of recordings for `model`. Of `options` only the held-out part and the seed are read: the
// model decides the rest. Without `labels` recordings need no transcripts. `tokenizer` makes labels of
// transcripts. Throws like data::sound_folder() and spectrum_processing(), and FAILED_PRECONDITION if a
// tokenizer is missing.
std::shared_ptr<data::Dataset> open_recordings(const Model& model, const std::string& path, bool labels,
                                               data::SoundOptions options,
                                               const std::optional<Tokenizer>& tokenizer,
                                               const SettingName& called,
                                               const std::function<void(const std::string& line)>& note);

}  // namespace weft
