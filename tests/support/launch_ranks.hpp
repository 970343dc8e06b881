// Runs the ranks of a test as processes. The test's process loads libtorch once and forks the ranks of each
// case, which takes milliseconds, allows any number of ranks, and isolates cases from each other.
//
//   WEFT_RANKS_TEST(Communicator, SumsOverAllRanks, 2, 3) {  // once with 2 ranks, once with 3
//     at::Tensor tensor = at::full({4}, world.rank() + 1);
//     world.communicator().all_reduce(tensor).wait();
//     EXPECT_EQ(...);                                        // any GoogleTest assertion, on any rank
//   }
//
// Every rank sees what the test's process computed before the fork (a single-rank reference, for example).
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

// How a rank ended.
struct RankOutcome {
  bool passed = false;  // its body returned and no assertion failed in it
  std::string how;      // "passed", "failed", "killed by signal 9 (Killed)", "still running after 60 s"
  std::string output;
};

// Forks `count` ranks, calls body(rank) in each and waits until all have ended, or kills them when the time
// is up. Each rank has torchrun's environment with a free port, so that weft::launch() joins them. The
// calling process must have one thread only.
std::vector<RankOutcome> run_ranks(int count, const std::function<void(int rank)>& body,
                                   const RankOptions& options = {});

// Runs `body` once for each number of ranks, on every rank with its world. If a rank does not pass, the
// running test fails with the outputs of the ranks that did not, first failure first. Use it for lambdas that
// capture:
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
