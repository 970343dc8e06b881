// The route of keys and values through a ring of rings.
#include "streams/route.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::parallel {
namespace {

struct Ring {
  int ranks, inner;
};
class Routes : public testing::TestWithParam<Ring> {};

// What rank r sends to rank s in a step, s must expect from r in the same step.
TEST_P(Routes, TakeEveryPartPastEveryRankOnce) {
  const auto [ranks, inner] = GetParam();
  std::vector<Route> routes;
  for (int rank = 0; rank < ranks; ++rank) routes.emplace_back(rank, ranks, inner);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(routes[rank].here(0), rank);
    std::set<int> seen;
    for (int step = 0; step < routes[rank].steps(); ++step) {
      seen.insert(routes[rank].here(step));
      EXPECT_EQ(routes[routes[rank].own(step)].here(step), rank);
      if (step + 1 == routes[rank].steps()) continue;
      const int next = routes[rank].next(step);
      EXPECT_EQ(routes[next].previous(step), rank);
      EXPECT_EQ(routes[next].here(step + 1), routes[rank].here(step));
    }
    EXPECT_EQ(static_cast<int>(seen.size()), ranks);
  }
}

// Exactly ranks / inner - 1 hops of a part cross to another inner ring.
TEST_P(Routes, CrossBetweenGroupsAsRarelyAsPossible) {
  const auto [ranks, inner] = GetParam();
  for (int rank = 0; rank < ranks; ++rank) {
    const Route route(rank, ranks, inner);
    int crossings = 0;
    for (int step = 0; step + 1 < route.steps(); ++step)
      crossings += route.next(step) / inner != rank / inner;
    EXPECT_EQ(crossings, ranks / inner - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Rings, Routes,
                         testing::Values(Ring{1, 1}, Ring{2, 2}, Ring{4, 4}, Ring{4, 2}, Ring{4, 1},
                                         Ring{6, 3}, Ring{8, 2}, Ring{8, 4}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + "by" + std::to_string(info.param.inner);
                         });

}  // namespace
}  // namespace weft::parallel
