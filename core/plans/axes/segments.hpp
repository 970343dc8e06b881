// Which positions of a sequence each rank holds when the sequence is split over ranks. Does not need
// libtorch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/cut.hpp"

namespace weft {

// Splits T positions over P ranks into segments whose sizes differ by at most one. In order, rank r holds the
// r-th of P segments. In zigzag order it holds the r-th and the r-th last of 2 P segments, which gives every
// rank the same amount of work under a causal mask.
struct Segments {
  enum class Order { kInOrder, kZigzag };
  int64_t ranks = 1;
  Order order = Order::kInOrder;

  // Returns the positions of `rank` among `total`, in ascending order.
  std::vector<Run> of(int64_t rank, int64_t total) const {
    const int64_t pieces = order == Order::kZigzag ? 2 * ranks : ranks;
    const auto piece = [&](int64_t i) {
      const int64_t begin = total * i / pieces;
      return Run{begin, total * (i + 1) / pieces - begin};
    };
    if (order == Order::kInOrder) return {piece(rank)};
    return {piece(rank), piece(pieces - 1 - rank)};
  }
  // Returns how many positions `rank` holds.
  int64_t count(int64_t rank, int64_t total) const {
    int64_t count = 0;
    for (const Run& segment : of(rank, total)) count += segment.count;
    return count;
  }
  // Returns the largest number of positions that a rank holds.
  int64_t most(int64_t total) const {
    int64_t most = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) most = std::max(most, count(rank, total));
    return most;
  }
};

}  // namespace weft
