#include "sound/sound_format.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/text.hpp"

namespace weft::data {

namespace {

// How a format is named, and how its files begin. The bytes 4 to 7 of some are a size.
struct Description {
  SoundFormat format;
  const char* name;
  std::vector<std::string> extensions;
  std::string begin;               // the bytes 0 to 3
  std::vector<std::string> kinds;  // the bytes 8 to 11, one of these; if empty, any
};

const std::array<Description, 4>& descriptions() {
  static const std::array<Description, 4> formats = {{
      {SoundFormat::kWav, "WAV", {".wav"}, "RIFF", {"WAVE"}},
      {SoundFormat::kFlac, "FLAC", {".flac"}, "fLaC", {}},
      {SoundFormat::kOgg, "Ogg", {".ogg", ".opus", ".oga"}, "OggS", {}},
      {SoundFormat::kAiff, "AIFF", {".aiff", ".aif"}, "FORM", {"AIFF", "AIFC"}},
  }};
  return formats;
}

const Description& description_of(SoundFormat format) {
  return descriptions()[static_cast<size_t>(format)];
}

bool begins_as(const Description& format, std::string_view content) {
  return content.starts_with(format.begin) &&
         (format.kinds.empty() ||
          (content.size() >= 12 &&
           std::count(format.kinds.begin(), format.kinds.end(), content.substr(8, 4)) > 0));
}

}  // namespace

const FileKind& sound_files() {
  static const FileKind kind = [] {
    FileKind all{"recording", {}};
    for (const Description& format : descriptions())
      all.extensions.insert(all.extensions.end(), format.extensions.begin(), format.extensions.end());
    return all;
  }();
  return kind;
}

std::string_view name_of(SoundFormat format) {
  return description_of(format).name;
}

SoundFormat format_of_name(const std::string& path) {
  for (const Description& format : descriptions())
    if (FileKind{"", format.extensions}.has_name_of(path)) return format.format;
  return SoundFormat::kWav;
}

void require_format(SoundFormat format, std::string_view content, const std::string& path) {
  const Description& wanted = description_of(format);
  if (begins_as(wanted, content)) return;
  if (content.empty() || (content.starts_with(wanted.begin) && content.size() < 12))
    fail(WEFT_DATA_LOSS, "{}: the file is cut short: it has {} bytes", path, content.size());
  for (const Description& other : descriptions())
    if (begins_as(other, content))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: this is no {} file, as its name says, but {}: rename it so that it ends in {}", path,
           wanted.name, other.name, other.extensions.front());
  fail(WEFT_INVALID_ARGUMENT, "{}: this is no {} file, it begins with \"{}\"; {}", path, wanted.name,
       printable(content.substr(0, 12)), kConvert);
}

}  // namespace weft::data
