// A string whose bytes know where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::jinja {

// UTF-8, and the origin of each byte: a number that the caller has given to a string of the context, or 0 for
// what the template writes. Bytes keep their origin wherever filters and operators move them.
class Text {
 public:
  using Origin = uint16_t;

  Text() = default;
  explicit Text(std::string bytes, Origin origin = 0) : bytes_(std::move(bytes)) {
    if (origin != 0) origins_.assign(bytes_.size(), origin);
  }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  Origin origin(size_t at) const { return origins_.empty() ? Origin{0} : origins_[at]; }

  void append(const Text& other) {
    if (!other.origins_.empty()) origins_.resize(bytes_.size());
    bytes_ += other.bytes_;
    if (!origins_.empty() || !other.origins_.empty()) {
      origins_.insert(origins_.end(), other.origins_.begin(), other.origins_.end());
      origins_.resize(bytes_.size());
    }
  }
  void append(std::string_view bytes, Origin origin = 0) { append(Text(std::string(bytes), origin)); }
  // Returns `count` bytes from `begin` on, or as many as there are.
  Text part(size_t begin, size_t count = std::string::npos) const {
    Text part(bytes_.substr(begin, count));
    if (origins_.empty()) return part;
    const auto first = origins_.begin() + static_cast<std::ptrdiff_t>(begin);
    part.origins_.assign(first, first + static_cast<std::ptrdiff_t>(part.size()));
    return part;
  }

 private:
  std::string bytes_;
  std::vector<Origin> origins_;  // of each byte; empty if all are 0
};

}  // namespace weft::jinja
