// Computes how many bytes of gathered chunks the accelerator has room for at each operation. All ranks agree
// on the inputs and so compute the same: which chunks are evicted decides which collectives come next.
#pragma once

#include <cstdint>
#include <string>

#include "placement.hpp"
#include "statistics.hpp"
#include "weft/torch/pools.hpp"

namespace weft::plugin::gemini {

class Room {
 public:
  Room() = default;
  Room(const PlacementOptions& options, Communicator ranks, StatisticsKey key, std::string memstats);

  // Call this before the first operation. Collective.
  void agree();
  // Call this before each operation of a training step. Attributes the memory used since the last call to the
  // previous operation. `in_use` is how many bytes chunks and other tensors of the strategy take on the
  // accelerator.
  void sample(size_t operation, int64_t in_use);
  // Call this after the last operation. Returns true if the statistics are complete now; then the call was
  // collective.
  bool end_step(bool writes);

  int64_t at(size_t operation) const;
  // Returns how many bytes no operation needs, once the statistics are complete.
  int64_t margin() const;
  bool warming_up() const { return warming_up_; }

 private:
  int64_t steady_capacity() const;
  void take(int64_t computing, int64_t in_use);

  PlacementOptions options_;
  Communicator ranks_;
  StatisticsKey key_;
  std::string memstats_;
  Statistics statistics_;
  int64_t capacity_ = 0, base_ = 0, in_use_ = 0;
  size_t operation_ = 0;
  bool sampling_ = false, warming_up_ = true;
};

}  // namespace weft::plugin::gemini
