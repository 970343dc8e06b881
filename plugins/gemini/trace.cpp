#include "trace.hpp"

#include <algorithm>
#include <utility>

namespace weft::plugin::gemini {

Trace::Trace(std::vector<std::vector<size_t>> chunks_of_units, size_t chunks)
    : chunks_of_units_(std::move(chunks_of_units)), users_(chunks) {
  for (size_t unit = 0; unit < units(); ++unit)
    for (const size_t chunk : chunks_of_units_[unit]) users_[chunk].push_back(unit);
}

size_t Trace::distance(size_t chunk, size_t now, bool forward_only) const {
  const size_t length = forward_only ? units() : operations();
  size_t nearest = length;
  for (const size_t unit : users_[chunk]) {
    const auto consider = [&](size_t operation) {
      const size_t after = operation > now ? operation - now : operation + length - now;
      nearest = std::min(nearest, after);
    };
    consider(forward(unit));
    if (!forward_only) consider(backward(unit));
  }
  return nearest;
}

std::optional<size_t> Trace::needed_last(const std::vector<size_t>& candidates, size_t now,
                                         bool forward_only) const {
  std::optional<size_t> last;
  size_t farthest = 0;
  for (const size_t chunk : candidates) {
    const size_t after = distance(chunk, now, forward_only);
    if (after <= farthest) continue;
    farthest = after;
    last = chunk;
  }
  return last;
}

}  // namespace weft::plugin::gemini
