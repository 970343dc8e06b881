#include "text.hpp"

namespace weft::hugging_face {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char character : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += character;
    }
  }
  out += text.size() > kLongest ? "...\"" : "\"";
  return out;
}

}  // namespace weft::hugging_face
