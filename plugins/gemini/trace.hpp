// The order in which a training step needs chunks: the forward of all units, then their backward in reverse
// order. Operation i is the forward of unit i if i is less than the number of units, and the backward of a
// unit otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::plugin::gemini {

class Trace {
 public:
  Trace() = default;
  // `chunks_of_units` has the chunks of each unit's parameters, each chunk once.
  Trace(std::vector<std::vector<size_t>> chunks_of_units, size_t chunks);

  size_t units() const { return chunks_of_units_.size(); }
  size_t operations() const { return 2 * units(); }
  size_t forward(size_t unit) const { return unit; }
  size_t backward(size_t unit) const { return 2 * units() - 1 - unit; }
  size_t unit_of(size_t operation) const {
    return operation < units() ? operation : 2 * units() - 1 - operation;
  }
  const std::vector<size_t>& chunks_of(size_t unit) const { return chunks_of_units_[unit]; }
  // Return the first and the last unit that use the chunk.
  size_t first_unit(size_t chunk) const { return users_[chunk].front(); }
  size_t last_unit(size_t chunk) const { return users_[chunk].back(); }

  // Returns how many operations after `now` the chunk is needed next, at least 1. Continues with the first
  // operation after the last one of the step, or after the last forward if `forward_only`.
  size_t distance(size_t chunk, size_t now, bool forward_only = false) const;

  // Returns the candidate that is needed last (Belady's rule), the first one if several are, or nothing if
  // there are no candidates.
  std::optional<size_t> needed_last(const std::vector<size_t>& candidates, size_t now,
                                    bool forward_only = false) const;

 private:
  std::vector<std::vector<size_t>> chunks_of_units_;
  std::vector<std::vector<size_t>> users_;  // the units that use each chunk, ascending
};

}  // namespace weft::plugin::gemini
