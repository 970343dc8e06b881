// Makes PNG files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::test {

inline uint32_t crc_of(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
  }
  return ~crc;
}
inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}
inline std::string chunk(const std::string& kind, const std::string& data) {
  return big_endian(static_cast<uint32_t>(data.size())) + kind + data + big_endian(crc_of(kind + data));
}
// Returns a grey PNG file of side x side pixels, not compressed.
inline std::string png(const std::vector<uint8_t>& pixels, size_t side) {
  std::string rows;
  for (size_t i = 0; i < pixels.size(); ++i) {
    if (i % side == 0) rows.push_back('\0');
    rows.push_back(static_cast<char>(pixels[i]));
  }
  uint32_t a = 1, b = 0;
  for (const char byte : rows) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  const auto size = static_cast<uint16_t>(rows.size());
  std::string block = {'\x78', '\x01', '\x01'};
  for (const uint16_t value : {size, static_cast<uint16_t>(~size)}) {
    block.push_back(static_cast<char>(value & 255));
    block.push_back(static_cast<char>(value >> 8));
  }
  const std::string header = big_endian(static_cast<uint32_t>(side)) +
                             big_endian(static_cast<uint32_t>(side)) + std::string("\x08\0\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", block + rows + big_endian(b << 16 | a)) +
         chunk("IEND", "");
}

}  // namespace weft::test
