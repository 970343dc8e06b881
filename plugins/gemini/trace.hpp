// In which order a training step needs chunks: forward through the units, then backward through them.
// Operation i below `units` is the forward of unit i; the others are the backwards, the last unit's first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::gemini {

class Trace {
 public:
  Trace() = default;
  // The chunks of each unit's parameters, each chunk once.
  Trace(std::vector<std::vector<size_t>> chunks_of_units, size_t chunks);

  size_t units() const { return chunks_of_units_.size(); }
  size_t operations() const { return 2 * units(); }
  size_t forward(size_t unit) const { return unit; }
  size_t backward(size_t unit) const { return 2 * units() - 1 - unit; }
  size_t unit_of(size_t operation) const {
    return operation < units() ? operation : 2 * units() - 1 - operation;
  }
  const std::vector<size_t>& chunks_of(size_t unit) const { return chunks_of_units_[unit]; }
  // First and last unit that uses the chunk.
  size_t first_unit(size_t chunk) const { return users_[chunk].front(); }
  size_t last_unit(size_t chunk) const { return users_[chunk].back(); }

  // Operations from `now` to the next one that needs the chunk, 1 at least; across the end of the step, or in
  // a pass that only goes forward across the end of that.
  size_t distance(size_t chunk, size_t now, bool forward_only = false) const;

  // The candidate that is needed last, the first of them among equals (Belady's rule). None without
  // candidates.
  std::optional<size_t> needed_last(const std::vector<size_t>& candidates, size_t now,
                                    bool forward_only = false) const;

 private:
  std::vector<std::vector<size_t>> chunks_of_units_;
  std::vector<std::vector<size_t>> users_;  // units of each chunk, ascending
};

}  // namespace weft::gemini
