#include "sound/sound_format.hpp"
#include "sound/sound_library.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {

Recording read_recording(const std::string& path, double most_seconds) {
  return format_of_name(path) == SoundFormat::kWav ? read_wav(path, most_seconds)
                                                   : read_with_library(path, most_seconds);
}

}  // namespace weft::data
