#include "checksum.hpp"

#include <array>
#include <cstring>

#include "text.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// Continues the remainder over `bytes`.
uint32_t remainder_by_tables(uint32_t remainder, std::span<const std::byte> bytes) {
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
  return remainder;
}

#if defined(__x86_64__)
constexpr std::size_t kFolded = 64;  // bytes that are folded at once

bool has_carryless_multiplication() {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

#define WEFT_CARRYLESS __attribute__((target("pclmul,sse4.1")))

WEFT_CARRYLESS __m128i load(const std::byte* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Moves 128 bits over the distance that `constants` stand for, and adds what lies there.
WEFT_CARRYLESS __m128i fold(__m128i value, __m128i constants, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(value, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

// Continues the remainder over a multiple of 16 bytes, at least 64: folds four times 128 bits side by side,
// then these into one, then 128 bits into 32 (Gopal et al., "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction", Intel, 2009; the constants are its for this polynomial).
WEFT_CARRYLESS uint32_t remainder_by_folding(uint32_t remainder, std::span<const std::byte> bytes) {
  const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);
  const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
  const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  __m128i lanes[4];
  for (int lane = 0; lane < 4; ++lane) lanes[lane] = load(next + 16 * lane);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(remainder)));
  for (next += kFolded, left -= kFolded; left >= kFolded; next += kFolded, left -= kFolded)
    for (int lane = 0; lane < 4; ++lane) lanes[lane] = fold(lanes[lane], by_512, load(next + 16 * lane));
  __m128i sum = lanes[0];
  for (int lane = 1; lane < 4; ++lane) sum = fold(sum, by_128, lanes[lane]);
  for (; left >= 16; next += 16, left -= 16) sum = fold(sum, by_128, load(next));

  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by_128, 0x10));
  sum =
      _mm_xor_si128(_mm_srli_si128(sum, 4), _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), by_64, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1));
}
#endif

}  // namespace

uint32_t crc32_by_tables(std::span<const std::byte> bytes) {
  return ~remainder_by_tables(0xffffffffu, bytes);
}

uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t remainder = 0xffffffffu;
#if defined(__x86_64__)
  static const bool can_fold = has_carryless_multiplication();
  if (const std::size_t folded = bytes.size() / 16 * 16; can_fold && folded >= kFolded) {
    remainder = remainder_by_folding(remainder, bytes.first(folded));
    bytes = bytes.subspan(folded);
  }
#endif
  return ~remainder_by_tables(remainder, bytes);
}

void CheckedBytes::check() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (is_checked_) return;
  const uint32_t found = crc32(bytes_);
  if (found != checksum_) {
    fail(WEFT_DATA_LOSS, what_, ": its ", bytes_.size(), " bytes have the checksum ", found,
         ", but the archive says ", checksum_, "; the file is damaged");
  }
  is_checked_ = true;
}

}  // namespace weft::hugging_face
