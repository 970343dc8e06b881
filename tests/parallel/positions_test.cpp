// Which positions each rank holds.
#include "streams/positions.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/group.hpp"

namespace weft::parallel {
namespace {

Positions of(uint32_t ranks, Positions::Order order) {
  return {comm::absent_ranks(ranks), order};
}

TEST(Positions, ArePartsThatDifferByOneInEachPiece) {
  for (const auto order : {Positions::Order::kInOrder, Positions::Order::kZigzag})
    for (const int ranks : {1, 2, 3, 4})
      for (int64_t total = 1; total <= 17; ++total) {
        const Positions positions = of(ranks, order);
        const int64_t pieces = order == Positions::Order::kZigzag ? 2 * ranks : ranks;
        std::vector<int> seen(total, 0);
        for (int rank = 0; rank < ranks; ++rank) {
          int64_t last = 0, count = 0;
          for (const weft::Run& segment : positions.of(rank, total)) {
            EXPECT_GE(segment.begin, last);
            EXPECT_LE(segment.count - total / pieces, 1);
            EXPECT_GE(segment.count, total / pieces);
            last = segment.begin + segment.count;
            count += segment.count;
            for (int64_t at = segment.begin; at < last; ++at) ++seen[at];
          }
          EXPECT_EQ(positions.count(rank, total), count);
        }
        EXPECT_EQ(seen, std::vector<int>(total, 1)) << ranks << " ranks, " << total << " positions";
      }
}

// In zigzag order the rows of a causal mask at each rank's positions must have equally many elements.
TEST(Positions, InZigzagShareOutACausalMask) {
  const Positions positions = of(4, Positions::Order::kZigzag);
  for (int rank = 0; rank < 4; ++rank) {
    int64_t attended = 0;
    for (const weft::Run& segment : positions.of(rank, 16))
      for (int64_t at = segment.begin; at < segment.begin + segment.count; ++at) attended += at + 1;
    EXPECT_EQ(attended, 16 * 17 / 2 / 4) << rank;
  }
}

TEST(Positions, AreTheRowsOfATensor) {
  const at::Tensor whole = at::arange(8).view({1, 8});
  const auto of_row = [](std::vector<int64_t> values) { return at::tensor(values).unsqueeze(0); };
  EXPECT_TRUE(of(2, Positions::Order::kInOrder).of(1, whole).equal(of_row({4, 5, 6, 7})));
  EXPECT_TRUE(of(2, Positions::Order::kZigzag).of(0, whole).equal(of_row({0, 1, 6, 7})));
  EXPECT_TRUE(of(2, Positions::Order::kZigzag).of(1, whole.t(), 0).equal(of_row({2, 3, 4, 5}).t()));
}

}  // namespace
}  // namespace weft::parallel
