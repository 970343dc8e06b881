#include "checksum.hpp"

#include <array>
#include <cstring>

namespace weft::hugging_face {
namespace {

// kTables[k][b] is the remainder of byte b followed by k zero bytes ("slicing-by-8", Kounavis and Berry,
// 2005).
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0xEDB88320u : 0);
    tables[0][byte] = remainder;
  }
  for (std::size_t table = 1; table < 8; ++table) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[table - 1][byte];
      tables[table][byte] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t remainder = 0xffffffffu;
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    uint64_t block = 0;
    std::memcpy(&block, next, 8);
    block ^= remainder;
    remainder = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) remainder ^= kTables[7 - byte][(block >> (8 * byte)) & 0xff];
  }
  for (; left > 0; --left, ++next) {
    remainder = (remainder >> 8) ^ kTables[0][(remainder ^ static_cast<uint32_t>(*next)) & 0xff];
  }
  return ~remainder;
}

}  // namespace weft::hugging_face
