// What an accelerator of limited room has to bring in, simulated from sizes and orders alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include "gemini/trace.hpp"

namespace weft::plugin::gemini {

using Chunks = std::vector<size_t>;
using Sizes = std::vector<int64_t>;

// What three steps bring in with so much room. A chunk leaves when its gradient is complete.
inline int64_t moved(const Trace& trace, const Sizes& sizes, int64_t room,
                     const std::function<size_t(const Chunks& candidates, size_t now)>& evict) {
  std::set<size_t> present;
  int64_t in_use = 0, sum = 0;
  const auto remove = [&](size_t chunk) {
    if (present.erase(chunk) != 0) in_use -= sizes[chunk];
  };
  for (size_t i = 0; i < 3 * trace.operations(); ++i) {
    const size_t now = i % trace.operations(), unit = trace.unit_of(now);
    const Chunks& needed = trace.chunks_of(unit);
    for (const size_t chunk : needed) {
      if (present.contains(chunk)) continue;
      while (in_use + sizes[chunk] > room) {
        Chunks candidates;
        for (const size_t other : present)
          if (std::find(needed.begin(), needed.end(), other) == needed.end()) candidates.push_back(other);
        if (candidates.empty()) throw std::logic_error("a unit does not fit");
        remove(evict(candidates, now));
      }
      present.insert(chunk);
      in_use += sizes[chunk];
      sum += sizes[chunk];
    }
    if (now < trace.units()) continue;
    for (const size_t chunk : needed)
      if (trace.first_unit(chunk) == unit) remove(chunk);
  }
  return sum;
}

inline int64_t by_looking_ahead(const Trace& trace, const Sizes& sizes, int64_t room) {
  return moved(trace, sizes, room,
               [&](const Chunks& candidates, size_t now) { return *trace.needed_last(candidates, now); });
}

}  // namespace weft::plugin::gemini
