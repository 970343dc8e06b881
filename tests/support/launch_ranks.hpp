// Ranks as processes for tests. The test's process loads libtorch once and forks the ranks of each case:
// milliseconds a case, any number of ranks, and whatever a case did to itself ends with it.
//
//   WEFT_RANKS_TEST(Communicator, SumsOverAllRanks, 2, 3) {  // once with 2 ranks, once with 3
//     at::Tensor tensor = at::full({4}, world.rank() + 1);
//     world.communicator().all_reduce(tensor).wait();
//     EXPECT_EQ(...);                                        // any assertion of GoogleTest, on any rank
//   }
//
// What the test's process computed before (a reference on one rank) is there in every rank, through fork.
#pragma once

#include <gtest/gtest.h>
#include <weft/world.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace weft::test {

struct RankOptions {
  std::chrono::milliseconds timeout{60'000};  // for the whole case, per number of ranks
  std::chrono::milliseconds grace{5'000};     // for the others once a rank has failed
  std::chrono::milliseconds collective_timeout{20'000};
};

// How a rank ended. Passed: its body returned and no assertion failed in it.
struct RankOutcome {
  bool passed = false;
  std::string how;  // "passed", "failed", "killed by signal 9 (Killed)", "still running after 60 s"
  std::string output;
};

// Forks `count` ranks, calls body(rank) in each, and waits until all have ended: by themselves, or killed
// when the time is up. Each has torchrun's environment with a free port, so that weft::launch() joins them.
// Needs a process of one thread.
std::vector<RankOutcome> run_ranks(int count, const std::function<void(int rank)>& body,
                                   const RankOptions& options = {});

// For each number of ranks: runs `body` on them, each with its world, and turns the first rank that did not
// pass into a failure of the running test, with its output and what became of the others. For lambdas, which
// may capture:
//   TEST_F(Fixture, Name) { on_ranks({2, 3}, [&](World& world) { ... }); }
void on_ranks(const std::vector<int>& counts, const std::function<void(World& world)>& body,
              const RankOptions& options = {});

}  // namespace weft::test

#define WEFT_RANKS_TEST(suite, name, ...)                            \
  static void suite##_##name##_on_rank(::weft::World& world);        \
  TEST(suite, name) {                                                \
    ::weft::test::on_ranks({__VA_ARGS__}, suite##_##name##_on_rank); \
  }                                                                  \
  static void suite##_##name##_on_rank([[maybe_unused]] ::weft::World& world)
