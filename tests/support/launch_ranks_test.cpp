// The launcher of ranks: a failure on one rank must fail the test, with a report.
#include "support/launch_ranks.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest-spi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "support/tolerances.hpp"

namespace weft::test {
namespace {

using std::chrono::milliseconds;

TEST(LaunchRanks, ReportsAnAssertionThatFailedOnOneRank) {
  EXPECT_NONFATAL_FAILURE(
      on_ranks({2}, [](World& world) { EXPECT_EQ(world.rank(), 0) << "told by the test"; }),
      "rank 1 of 2: failed");
  EXPECT_NONFATAL_FAILURE(
      on_ranks({2}, [](World& world) { EXPECT_EQ(world.rank(), 0) << "told by the test"; }),
      "told by the test");
}

TEST(LaunchRanks, ReportsAnException) {
  const auto body = [](World& world) {
    if (world.rank() == 1) throw std::runtime_error("thrown on purpose");
  };
  EXPECT_NONFATAL_FAILURE(on_ranks({2}, body), "thrown on purpose");
}

TEST(LaunchRanks, EndsTheOthersWhenOneRankDies) {
  const auto outcomes = run_ranks(2,
                                  [](int rank) {
                                    if (rank == 1) raise(SIGKILL);
                                    pause();
                                  },
                                  {.grace = milliseconds(100)});
  EXPECT_EQ(outcomes[1].how, "killed by signal 9 (Killed)");
  EXPECT_NE(outcomes[0].how.find("still running"), std::string::npos) << outcomes[0].how;
  EXPECT_FALSE(outcomes[0].passed);
}

TEST(LaunchRanks, EndsARankThatHangs) {
  const auto outcomes = run_ranks(1, [](int) { pause(); }, {.timeout = milliseconds(200)});
  EXPECT_FALSE(outcomes[0].passed);
  EXPECT_NE(outcomes[0].how.find("still running after 0.2 s"), std::string::npos) << outcomes[0].how;
}

TEST(LaunchRanks, KeepsTheOutputOfEachRankApart) {
  const auto outcomes = run_ranks(3, [](int rank) { std::printf("this is %d\n", rank); });
  ASSERT_EQ(outcomes.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(outcomes[rank].passed);
    EXPECT_EQ(outcomes[rank].output, "this is " + std::to_string(rank) + "\n");
  }
}

TEST(LaunchRanks, RefusesAProcessWithThreads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread thread([&] {
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 0);
  });
  EXPECT_THROW(run_ranks(1, [](int) {}), std::runtime_error);
  close(ends[1]);
  thread.join();
  close(ends[0]);
  EXPECT_TRUE(run_ranks(1, [](int) {})[0].passed);
}

TEST(RelativeError, IsTheLargestDifferenceOverTheLargestValue) {
  const at::Tensor expected = at::tensor({1.0, -4.0, 0.0});
  EXPECT_EQ(relative_error(expected, expected), 0);
  EXPECT_DOUBLE_EQ(relative_error(at::tensor({1.5, -4.0, 1.0}), expected), 0.25);
  EXPECT_EQ(relative_error(at::zeros(3), at::zeros(3)), 0);
  EXPECT_FALSE(is_near(at::zeros(2), expected, 1e9));
  EXPECT_FALSE(is_near(at::ones(3), at::zeros(3), 1e9));
  EXPECT_FALSE(is_near(at::full({3}, std::nan("")), expected, 1e9));
  EXPECT_FALSE(is_near(expected, at::full({3}, std::nan("")), 1e9));
}

}  // namespace
}  // namespace weft::test
