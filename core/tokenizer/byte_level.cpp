#include "tokenizer/byte_level.hpp"

#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

const char* const kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

const std::array<char32_t, 256>& characters_of_bytes() {
  static const std::array<char32_t, 256> all = [] {
    std::array<char32_t, 256> characters = {};
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool shown = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters[byte] = shown ? byte : next++;
    }
    return characters;
  }();
  return all;
}

std::optional<uint8_t> byte_of(char32_t character) {
  static const std::array<int16_t, 512> bytes = [] {
    std::array<int16_t, 512> all = {};
    all.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte) all[characters_of_bytes()[byte]] = static_cast<int16_t>(byte);
    return all;
  }();
  if (character >= bytes.size() || bytes[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(bytes[character]);
}

void append_spelling_of_bytes(std::string& spelling, std::string_view text) {
  static const std::array<std::string, 256> spellings = [] {
    std::array<std::string, 256> all;
    for (size_t byte = 0; byte < 256; ++byte) append_code_point(all[byte], characters_of_bytes()[byte]);
    return all;
  }();
  for (const char byte : text) spelling += spellings[static_cast<unsigned char>(byte)];
}

std::string spelling_of_bytes(std::string_view text) {
  std::string spelling;
  append_spelling_of_bytes(spelling, text);
  return spelling;
}

void append_bytes_of_spelling(std::string& bytes, std::string_view spelling) {
  const size_t before = bytes.size();
  for (size_t at = 0; at < spelling.size();) {
    const std::optional<uint8_t> byte = byte_of(next_code_point(spelling, at));
    if (!byte) {
      bytes.resize(before);
      bytes += spelling;
      return;
    }
    bytes += static_cast<char>(*byte);
  }
}

}  // namespace weft::tokenizer
