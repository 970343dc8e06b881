// What boxes cover, exactly once or not.
#include "box/cover.hpp"

#include <gtest/gtest.h>

namespace weft {
namespace {

using Shape = std::vector<int64_t>;

TEST(Cover, IsOnceForEveryDivisionOfATensor) {
  EXPECT_TRUE(cover_once({}, {{{}, {}}}));
  EXPECT_TRUE(cover_once({0, 4}, {}));
  EXPECT_TRUE(cover_once({0, 4}, {{{0, 0}, {0, 4}}}));
  EXPECT_TRUE(cover_once({7, 5}, {{{0, 0}, {7, 5}}}));
  EXPECT_TRUE(cover_once({7, 5}, {{{3, 0}, {4, 5}}, {{0, 2}, {3, 3}}, {{0, 0}, {3, 2}}}));
  for (const int64_t cut : {1, 17, 52, 104}) {
    std::vector<Box> boxes;
    const Box whole = Box::whole({3, 5, 7});
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, cut}, {cut, 105 - cut}})
      for (const Box& box : boxes_of_range(whole, begin, count)) boxes.push_back(box);
    EXPECT_TRUE(cover_once(whole.extent, boxes)) << cut;
  }
  // More elements than numbers of 32 bits, and a stride beyond 2^61.
  const int64_t large = int64_t{1} << 31;
  EXPECT_TRUE(cover_once({large, large}, {{{0, 0}, {large - 1, large}}, {{large - 1, 0}, {1, large}}}));
}

TEST(Cover, IsNotOnceWhereElementsAreMissingOrHeldTwice) {
  EXPECT_FALSE(cover_once({}, {}));
  EXPECT_FALSE(cover_once({}, {{{}, {}}, {{}, {}}}));
  EXPECT_FALSE(cover_once({7, 5}, {}));
  EXPECT_FALSE(cover_once({7, 5}, {{{0, 0}, {6, 5}}}));
  // The right number of elements.
  EXPECT_FALSE(cover_once({8}, {{{0}, {4}}, {{0}, {4}}}));
  EXPECT_FALSE(cover_once({8}, {{{0}, {3}}, {{1}, {5}}}));
  EXPECT_FALSE(cover_once({4, 4}, {{{0, 0}, {2, 4}}, {{1, 0}, {1, 4}}, {{3, 0}, {1, 4}}}));
  EXPECT_FALSE(cover_once({4, 4}, {{{0, 0}, {4, 2}}, {{0, 1}, {4, 2}}}));
  const int64_t large = int64_t{1} << 31;
  EXPECT_FALSE(cover_once({large, large}, {{{0, 0}, {large - 1, large}}, {{0, 0}, {1, large}}}));
}

TEST(Cover, AddsUpOverRanks) {
  constexpr uint64_t kPoint = 12345;
  Cover whole({6, 2}, kPoint), first({6, 2}, kPoint), second({6, 2}, kPoint), other({6, 2}, kPoint);
  whole.add(Box::whole({6, 2}));
  first.add({{0, 0}, {3, 2}});
  second.add({{3, 0}, {3, 2}});
  other.add({{2, 0}, {3, 2}});
  Cover both({6, 2}, kPoint), wrong({6, 2}, kPoint);
  both.add(second.sum());
  both.add(first.sum());
  wrong.add(other.sum());
  wrong.add(first.sum());
  EXPECT_EQ(both.sum(), whole.sum());
  EXPECT_NE(wrong.sum(), whole.sum());
}

}  // namespace
}  // namespace weft
