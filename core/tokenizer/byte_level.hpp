// Bytes as characters: 188 bytes stand for themselves, the others have the code points from U+0100. This is
// how vocabularies spell tokens that are bytes ("Ġ" is a space).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::tokenizer {

// Returns the character of each byte.
const std::array<char32_t, 256>& characters_of_bytes();
std::optional<uint8_t> byte_of(char32_t character);

// Appends the characters of the bytes of `text`.
void append_spelling_of_bytes(std::string& spelling, std::string_view text);
std::string spelling_of_bytes(std::string_view text);
// Appends the bytes that a spelling means; the spelling itself if a character of it stands for no byte.
void append_bytes_of_spelling(std::string& bytes, std::string_view spelling);

// The expression that cuts a text into words before bytes become characters.
extern const char* const kByteLevelWords;

}  // namespace weft::tokenizer
