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

// Checks what every rank throws when only rank 1 fails. Rank 1 throws its own exception.
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

// On a grid of 2 x 2 ranks, the text names the rank in the job once, although two groups pass the failure on.
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

WEFT_RANKS_TEST(RequireAgreement, NamesEachValueThatDiffersAndWhoHasIt, 4) {
  const bool other = world.rank() % 2 == 1;
  const std::string path = "/data" + std::to_string(world.rank());
  const nlohmann::json facts = {
      {"seed", other ? 1 : 42},
      {"data", {{"samples", 17}, {"content", world.rank() == 2 ? "cafe" : "beef"}}},
      {"names", nlohmann::json(other ? nlohmann::json({"a", "b"}) : nlohmann::json({"a", "c"}))},
      {"long", std::string(400, 'x') + (other ? "yy" : "")},
      {"same", {1, 2}}};
  const auto run = [&](const nlohmann::json& own) {
    require_agreement(world.communicator(), own, {{"data", path}, {"same", path}});
  };
  EXPECT_ERROR(run(facts), WEFT_FAILED_PRECONDITION, "ranks 0, 1, 2 and 3", "alike",
               "\nseed: ranks 0 and 2 have 42, ranks 1 and 3 have 1",
               "\ndata content: ranks 0, 1 and 3 have beef (in /data0), rank 2 has cafe (in /data2)",
               "\nnames 1: ranks 0 and 2 have c, ranks 1 and 3 have b", "(400 characters)",
               "(402 characters)");
  nlohmann::json missing = {{"save", "out"}};
  if (world.rank() == 3) missing.clear();
  EXPECT_ERROR(run(missing), WEFT_FAILED_PRECONDITION, "ranks 0 and 3", "alike",
               "\nsave: ranks 0, 1 and 2 have out, rank 3 has none");
  run({{"seed", 42}});  // paths may differ
}

TEST(RanksText, LeavesManyOut) {
  EXPECT_EQ(ranks_text({7}), "rank 7");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
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
