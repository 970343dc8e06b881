// Ranks that agree or fail together.
#include "comm/agreement.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/error.hpp"

namespace weft::test {
namespace {

constexpr const char* kNoException = "an exception that is no std::exception";

// What every rank gets when rank 1 alone fails with `failure`: itself its own exception.
template <class Failure>
void expect_failure_of_rank_1(const World& world, const Failure& failure, weft_status status,
                              const std::string& text) {
  const auto run = [&] {
    on_every_rank(world.communicator(), [&] {
      if (world.rank() == 1) throw failure;
    });
  };
  if (world.rank() == 1)
    EXPECT_THROW(run(), Failure);
  else
    EXPECT_ERROR(run(), status, "rank 1 failed: " + text);
}

WEFT_RANKS_TEST(OnEveryRank, FailsOnAllWithTheErrorOfTheCulprit, 2, 3) {
  expect_failure_of_rank_1(world, Error(WEFT_NOT_FOUND, "no file"), WEFT_NOT_FOUND, "no file");
  expect_failure_of_rank_1(world, std::runtime_error("no disk"), WEFT_INTERNAL, "no disk");
  expect_failure_of_rank_1(world, 7, WEFT_UNKNOWN, kNoException);
}

WEFT_RANKS_TEST(OnEveryRank, RethrowsWhereAllFailAlike, 2) {
  const auto run = [&] { on_every_rank(world.communicator(), [] { throw std::out_of_range("too far"); }); };
  EXPECT_THROW(run(), std::out_of_range);
}

WEFT_RANKS_TEST(OnEveryRank, NamesTheFirstOfSeveralCulprits, 3) {
  const auto run = [&] {
    on_every_rank(world.communicator(), [&] {
      if (world.rank() > 0) throw Error(WEFT_NOT_FOUND, "file " + std::to_string(world.rank()));
    });
  };
  EXPECT_ERROR(run(), WEFT_NOT_FOUND, world.rank() == 1 ? "file 1" : "rank 1 failed: file 1");
}

// Of a grid of 2 x 2: its rank in the job, and once, although two groups pass the failure on.
WEFT_RANKS_TEST(OnEveryRank, NamesTheCulpritOfNestedGroupsOnce, 4) {
  const Communicator rows = world.along({2, 2}, {1}), columns = world.along({2, 2}, {0});
  const auto run = [&] {
    on_every_rank(columns, [&] {
      on_every_rank(rows, [&] {
        if (world.rank() == 2) throw Error(WEFT_NOT_FOUND, "no file");
      });
    });
  };
  try {
    run();
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), world.rank() == 2 ? "no file" : "rank 2 failed: no file");
    EXPECT_EQ(error.status(), WEFT_NOT_FOUND);
  }
}

WEFT_RANKS_TEST(GatherFromEveryRank, ReturnsWhatEachReturned, 1, 3) {
  const auto all = gather_from_every_rank(world.communicator(), [&] {
    return world.rank() == 0 ? std::string() : "3 of " + std::to_string(world.rank());
  });
  ASSERT_EQ(all.size(), static_cast<size_t>(world.size()));
  EXPECT_EQ(all[0], "");
  for (int rank = 1; rank < world.size(); ++rank) EXPECT_EQ(all[rank], "3 of " + std::to_string(rank));
}

WEFT_RANKS_TEST(OnMaster, RunsOnTheFirstRankAlone, 2) {
  int runs = 0;
  on_master(world.communicator(), [&] { ++runs; });
  EXPECT_EQ(runs, world.rank() == 0 ? 1 : 0);
}

TEST(Deferred, RunsNothingAfterAFailureAndThrowsItLater) {
  Deferred deferred;
  int runs = 0;
  deferred.run([&] { ++runs; });
  deferred.run([] { throw 7; });
  deferred.run([&] { ++runs; });
  EXPECT_EQ(runs, 1);
  EXPECT_THROW(deferred.rethrow(), int);
}

}  // namespace
}  // namespace weft::test
