// A string whose bytes know where they come from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/limits.hpp"

namespace weft::jinja {

// UTF-8, and the origin of each byte: a number that the caller has given to a string of the context, or 0 for
// what the template writes. Bytes keep their origin wherever filters and operators move them.
class Text {
 public:
  using Origin = uint16_t;

  Text() = default;
  explicit Text(std::string bytes, Origin origin = 0) : bytes_(std::move(bytes)) {
    hold(bytes_.size(), origin != 0);
    if (origin != 0) origins_.assign(bytes_.size(), origin);
  }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Origin origin(size_t at) const { return origins_.empty() ? Origin{0} : origins_[at]; }

  void append(const Text& other) { append_part(other, 0, other.size()); }
  // Appends `count` bytes of another text from `begin` on.
  void append_part(const Text& other, size_t begin, size_t count) {
    const bool has_origins = !other.origins_.empty();
    if (begin_append(count, has_origins)) {
      const auto first = other.origins_.begin() + static_cast<std::ptrdiff_t>(begin);
      if (has_origins) origins_.insert(origins_.end(), first, first + static_cast<std::ptrdiff_t>(count));
      origins_.resize(bytes_.size() + count);
    }
    bytes_.append(other.bytes_, begin, count);
  }
  void append(std::string_view bytes, Origin origin = 0) {
    if (begin_append(bytes.size(), origin != 0)) origins_.resize(bytes_.size() + bytes.size(), origin);
    bytes_ += bytes;
  }
  // Returns `count` bytes from `begin` on, or as many as there are.
  Text part(size_t begin, size_t count = std::string::npos) const {
    Text part;
    part.append_part(*this, begin, std::min(count, size() - begin));
    return part;
  }
  // Returns other bytes, as many as these, with the origins of these.
  Text with_bytes(std::string bytes) const {
    Text other(std::move(bytes));
    other.hold(other.size(), !origins_.empty());
    other.origins_ = origins_;
    return other;
  }

 private:
  void hold(size_t size, bool has_origins) {
    constexpr size_t kFixed = 64;  // of the object itself, for texts of a letter are many
    held_.set(kFixed + size * (has_origins ? 1 + sizeof(Origin) : 1));
  }
  // Holds what an append needs. Returns whether the bytes then have origins.
  bool begin_append(size_t count, bool has_origins) {
    has_origins = has_origins || !origins_.empty();
    hold(bytes_.size() + count, has_origins);
    if (has_origins && origins_.empty()) origins_.resize(bytes_.size());
    return has_origins;
  }

  std::string bytes_;
  std::vector<Origin> origins_;  // of each byte; empty if all are 0
  Held held_;
};

}  // namespace weft::jinja
