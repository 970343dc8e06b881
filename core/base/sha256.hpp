// SHA-256 (FIPS 180-4) in portable C++. Boost has no SHA-256, and libweft should not depend on a crypto
// library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

class Sha256 {
 public:
  void update(const void* data, size_t size);
  // Returns the digest of all updates in lower-case hexadecimal. Call it once.
  std::string finish();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_ = {};
  uint64_t size_ = 0;
};

std::string sha256_hex(std::string_view data);
// Returns the first 12 characters of a digest, which are enough to compare what ranks have and short enough
// for messages.
std::string digest_prefix(const std::string& digest);
// Returns the digest of a file. Throws NOT_FOUND or DATA_LOSS with the path.
std::string sha256_file(const std::filesystem::path& path);

}  // namespace weft
