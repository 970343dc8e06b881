// Finds recordings that are not whole. libsndfile reads what is left of a truncated file and does not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sound/sound_format.hpp"

namespace weft::data {

// Returns the samples of a channel that the file says it has. They are 0 if FLAC leaves them out. Returns
// nothing for Ogg with any samples, whose number depends on more than the last page. `content` begins as
// require_format() wants it, and is not WAV. Throws DATA_LOSS for a file that is truncated or, where the
// container shows it, damaged; UNIMPLEMENTED for codings and structures that are not read.
std::optional<int64_t> require_whole(SoundFormat format, std::string_view content, const std::string& path);

// Changes the header of a whole file where it makes libsndfile read less than the file has: FLAC is then read
// to its end, whatever length it states, and Opus at 48 kHz, whatever rate its source had.
void remove_limits(SoundFormat format, std::string& content);

}  // namespace weft::data
