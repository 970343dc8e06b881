#include "tokenizer/charsmap.hpp"

#include <cstddef>
#include <optional>

#include "base/text.hpp"
#include "tokenizer/graphemes.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The fields of a unit of a double array.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t label(uint32_t unit) {
  return unit & (1u << 31 | 0xFF);
}
uint32_t value(uint32_t unit) {
  return unit & ~(1u << 31);
}
uint32_t offset(uint32_t unit) {
  return (unit >> 10) << ((unit >> 9 & 1) * 8);
}

// Calls `take` with the values and sizes of the keys that `text` begins with, the shortest first, until it
// returns false. Returns how many bytes it has looked at.
template <typename Take>
size_t for_each_prefix(const std::vector<uint32_t>& units, std::string_view text, const Take& take) {
  if (units.empty()) return 0;
  size_t node = offset(units[0]), i = 0;
  for (; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units.size() || label(units[node]) != byte) break;
    const uint32_t unit = units[node];
    node ^= offset(unit);
    if (has_leaf(unit) && node < units.size() && !take(value(units[node]), i + 1)) break;
  }
  return i;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& source) {
  if (bytes.empty()) return;
  const uint32_t size = bytes.size() < 4 ? 0 : little_endian(bytes);
  if (size < 4 || size % 4 != 0 || size > bytes.size() - 4)
    fail(WEFT_DATA_LOSS, "{}: \"precompiled_charsmap\" has {} bytes and a trie of {}; the map is damaged",
         source, bytes.size(), size);
  units_.reserve(size / 4);
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(little_endian(bytes.substr(at)));
  texts_ = bytes.substr(4 + size);
  if (!is_utf8(texts_))
    fail(WEFT_DATA_LOSS, "{}: the texts of \"precompiled_charsmap\" are no UTF-8; the map is damaged",
         source);
}

bool Charsmap::may_begin(uint32_t begin) const {
  const auto is_within_character = [&] { return (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80; };
  return begin < texts_.size() ? !is_within_character() : begin == texts_.size();
}

std::string_view Charsmap::text_at(uint32_t begin) const {
  const std::string_view rest = std::string_view(texts_).substr(begin);
  return rest.substr(0, rest.find('\0'));
}

bool Charsmap::replace(std::string_view part, std::string& out) const {
  std::optional<uint32_t> found;
  for_each_prefix(units_, part, [&](uint32_t begin, size_t) {
    if (may_begin(begin)) found = begin;
    return false;
  });
  if (found) out += text_at(*found);
  return found.has_value();
}

std::optional<Charsmap::Found> Charsmap::longest(std::string_view text, Work work) const {
  size_t longest = 0;
  uint32_t place = 0;
  work.step(for_each_prefix(units_, text, [&](uint32_t begin, size_t size) {
    if (may_begin(begin)) {
      longest = size;
      place = begin;
    }
    return true;
  }));
  if (longest == 0) return std::nullopt;
  return Found{longest, text_at(place)};
}

std::string Charsmap::apply(std::string_view text, Work work) const {
  constexpr size_t kLongestCluster = 5;
  std::string result;
  result.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = end_of_grapheme(text, begin);
    const bool is_short = end - begin <= kLongestCluster;
    if (!is_short || !replace(text.substr(begin, end - begin), result))
      for (size_t at = begin; at < end;) {
        const size_t first = at;
        next_code_point(text, at);
        const std::string_view character = text.substr(first, at - first);
        if (!replace(character, result)) result += character;
      }
    begin = end;
    work.require_room(result.size());
  }
  return result;
}

std::string bytes_of_base64(std::string_view text, const std::string& source) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t size = text.find_last_not_of('=') + 1;
  std::string bytes;
  bytes.reserve(size * 3 / 4);
  uint32_t bits = 0;
  unsigned count = 0;
  for (const char character : text.substr(0, size)) {
    const size_t digit = kDigits.find(character);
    if (digit == std::string_view::npos)
      fail(WEFT_DATA_LOSS, "{}: \"precompiled_charsmap\" has a {}, which is no digit of base64", source,
           printable(std::string_view(&character, 1)));
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  if (text.size() % 4 != 0 || text.size() - size > 2 || size % 4 == 1)
    fail(WEFT_DATA_LOSS, "{}: \"precompiled_charsmap\" is no base64: it is cut off", source);
  return bytes;
}

}  // namespace weft::tokenizer
