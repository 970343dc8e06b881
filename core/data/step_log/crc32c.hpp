// CRC-32C (Castagnoli), the checksum of event files.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weft::step_log {

inline constexpr std::array<uint32_t, 256> kCrc32cOfByte = [] {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}();

// Returns the CRC-32C of `bytes`, as RFC 3720 defines it.
constexpr uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kCrc32cOfByte[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

// Returns the CRC-32C as TFRecord files store it, so that the CRC of a record with its own CRC is not
// constant.
constexpr uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

}  // namespace weft::step_log
