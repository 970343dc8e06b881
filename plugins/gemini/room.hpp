// How many bytes of gathered chunks the accelerator has room for at each operation. Every rank computes the
// same from what all agreed on: what is evicted decides which collectives come next.
#pragma once

#include <cstdint>
#include <string>

#include "placement.hpp"
#include "statistics.hpp"
#include "weft/torch/pools.hpp"

namespace weft::gemini {

class Room {
 public:
  Room() = default;
  Room(const PlacementOptions& options, Communicator ranks, StatisticsKey key, std::string memstats);

  // Before the first operation. Collective.
  void agree();
  // Before each operation of a training step: what computing took since the last call belongs to the one
  // before. `in_use`: bytes of chunks and what else the strategy keeps on the accelerator.
  void sample(size_t operation, int64_t in_use);
  // After the last operation. Collective if it completes the statistics, which is returned.
  bool end_step(bool writes);

  int64_t at(size_t operation) const;
  // What no operation needs, once the statistics are complete.
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

}  // namespace weft::gemini
