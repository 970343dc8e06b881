// The formats of recordings, told by the names of files and by their first bytes.
#pragma once

#include <string>
#include <string_view>

#include "loader/class_folder.hpp"

namespace weft::data {

enum class SoundFormat { kWav, kFlac, kOgg, kAiff };

// What messages advise for files that Weft does not read.
inline constexpr const char* kConvert = "ffmpeg -i FILE -c:a pcm_s16le OUT.wav writes one that is read";

// Returns the files that are recordings by their names.
const FileKind& sound_files();

std::string_view name_of(SoundFormat format);  // "FLAC"

// Returns the format that the extension of a file means; WAV for any other extension.
SoundFormat format_of_name(const std::string& path);

// Throws unless `content` begins as files of the format do: INVALID_ARGUMENT, with the format that it has if
// Weft reads that one, or DATA_LOSS if it is too short to tell.
void require_format(SoundFormat format, std::string_view content, const std::string& path);

}  // namespace weft::data
