// Reads recordings with libsndfile, which is opened when the first one is met.
#pragma once

#include <string>

#include "weft/data/sound.hpp"

namespace weft::data {

inline constexpr const char* kSoundLibrary = "libsndfile.so.1";

// Throws FAILED_PRECONDITION, naming the recording, the library and its package, unless the library opens.
void require_sound_library(const std::string& path, const std::string& library = kSoundLibrary);

// Does what read_recording() does, for files that are not WAV by their names. Threads can call it at once.
Recording read_with_library(const std::string& path, double most_seconds,
                            const std::string& library = kSoundLibrary);

}  // namespace weft::data
