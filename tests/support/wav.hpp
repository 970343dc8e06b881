// Makes .wav files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

struct WavHeader {
  uint16_t coding = 1;  // 1: PCM, 3: floating point
  uint16_t channels = 1;
  uint32_t rate = 16000;
  uint16_t bits = 16;
  bool extensible = false;
};

// Returns the bytes of a file whose samples are `data`.
inline std::string wav_bytes(const WavHeader& header, std::string_view data) {
  const auto append = [](std::string& bytes, auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string format;
  append(format, header.extensible ? uint16_t{0xFFFE} : header.coding);
  append(format, header.channels);
  append(format, header.rate);
  const auto block = static_cast<uint16_t>(header.channels * header.bits / 8);
  append(format, header.rate * block);
  append(format, block);
  append(format, header.bits);
  if (header.extensible) {
    append(format, uint16_t{22});
    append(format, header.bits);
    append(format, uint32_t{0});
    append(format, header.coding);
    format.append("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);
  }
  std::string chunks = "WAVEfmt ";
  append(chunks, static_cast<uint32_t>(format.size()));
  chunks += format + "LIST";
  append(chunks, uint32_t{3});
  chunks.append("abc\0data", 8);
  append(chunks, static_cast<uint32_t>(data.size()));
  chunks += data;
  std::string bytes = "RIFF";
  append(bytes, static_cast<uint32_t>(chunks.size()));
  return bytes + chunks;
}

// Returns a file of 16 bits with these samples from -1 to 1.
inline std::string wav_of(const std::vector<float>& samples, uint32_t rate = 16000) {
  std::string data;
  for (const float sample : samples) {
    const auto value = static_cast<int16_t>(sample * 32767);
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return wav_bytes({.rate = rate}, data);
}

}  // namespace weft::test
