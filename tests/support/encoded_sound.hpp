// Makes recordings that are not WAV, with libsndfile.
#pragma once

#include <sndfile.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dynamic_library.hpp"

namespace weft::test {

struct SoundCoding {
  int format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  int channels = 1;
  int rate = 16000;
};

template <class Function>
Function sndfile_function(const char* name) {
  static const DynamicLibrary library("libsndfile.so.1");
  return reinterpret_cast<Function>(library.find(name));
}

// Returns the bytes of a file with these samples: of int32_t, whose upper bits are kept, or of double, from
// -1 to 1. Those of several channels lie side by side.
template <class Sample>
std::string encoded_sound(const SoundCoding& coding, const std::vector<Sample>& samples) {
  struct Memory {
    std::string bytes;
    sf_count_t position = 0;
  } memory;
  SF_VIRTUAL_IO io = {};
  io.get_filelen = [](void* data) -> sf_count_t { return std::ssize(static_cast<Memory*>(data)->bytes); };
  io.tell = [](void* data) { return static_cast<Memory*>(data)->position; };
  io.seek = [](sf_count_t offset, int whence, void* data) {
    auto& memory = *static_cast<Memory*>(data);
    return memory.position = offset + (whence == SEEK_CUR   ? memory.position
                                       : whence == SEEK_END ? std::ssize(memory.bytes)
                                                            : 0);
  };
  io.read = [](void* target, sf_count_t count, void* data) -> sf_count_t {
    auto& memory = *static_cast<Memory*>(data);
    const size_t read = memory.bytes.copy(static_cast<char*>(target), static_cast<size_t>(count),
                                          static_cast<size_t>(memory.position));
    memory.position += static_cast<sf_count_t>(read);
    return static_cast<sf_count_t>(read);
  };
  io.write = [](const void* source, sf_count_t count, void* data) {
    auto& memory = *static_cast<Memory*>(data);
    memory.bytes.resize(std::max(memory.bytes.size(), static_cast<size_t>(memory.position + count)));
    memory.bytes.replace(static_cast<size_t>(memory.position), static_cast<size_t>(count),
                         static_cast<const char*>(source), static_cast<size_t>(count));
    memory.position += count;
    return count;
  };
  SF_INFO info = {};
  info.samplerate = coding.rate;
  info.channels = coding.channels;
  info.format = coding.format;
  SNDFILE* const file =
      sndfile_function<decltype(&sf_open_virtual)>("sf_open_virtual")(&io, SFM_WRITE, &info, &memory);
  if (file == nullptr)
    throw std::runtime_error(sndfile_function<decltype(&sf_strerror)>("sf_strerror")(nullptr));
  const auto frames = static_cast<sf_count_t>(samples.size()) / coding.channels;
  if constexpr (std::is_same_v<Sample, double>)
    sndfile_function<decltype(&sf_writef_double)>("sf_writef_double")(file, samples.data(), frames);
  else
    sndfile_function<decltype(&sf_writef_int)>("sf_writef_int")(file, samples.data(), frames);
  sndfile_function<decltype(&sf_close)>("sf_close")(file);
  return memory.bytes;
}

}  // namespace weft::test
