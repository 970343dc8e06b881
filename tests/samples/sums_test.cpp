// A strategy of the samples that sums gradients, WEFT_TEST_STRATEGY: gradients and steps are those of one
// rank, in train_step and in a caller's own loop.
#include <cstdlib>

#include "plugins/support/parity.hpp"

namespace weft::test {
namespace {

constexpr const char* kUngated = "\"gated\": false";

class Sums : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }

  static JobOptions options(const std::string& strategy = WEFT_TEST_STRATEGY) {
    return {.strategy = strategy, .precision = "fp64"};
  }

  // One update with what `backwards` accumulate, then another with one backward: the values after it. A
  // backward is synchronised where `backwards` is true, and each has a batch of its own.
  static Tensors values_after(World world, const JobOptions& options, const std::vector<bool>& backwards) {
    Job job = boost(world, toy(options, kUngated), options);
    int64_t seed = 0;
    for (const bool synchronise : backwards)
      job.accumulate_gradients(own_part(toy_batch(7, ++seed), world), synchronise);
    job.optimizer.step();
    job.optimizer.zero_grad();
    job.accumulate_gradients(own_part(toy_batch(7, ++seed), world));
    job.optimizer.step();
    return values_of(job);
  }

  static void expect_values_of_one_rank(const std::vector<bool>& backwards) {
    const Tensors expected = values_after(one_rank(), options("none"), backwards);
    on_ranks({1, 2, 3}, [&](World& world) {
      expect_near(values_after(world, options(), backwards), expected, kGradientFp64);
    });
  }
};

TEST_F(Sums, AddsUpTwoSynchronisedBackwardsBeforeAStep) {
  expect_values_of_one_rank({true, true});
}

TEST_F(Sums, AddsUpSynchronisedAndLocalBackwardsBeforeAStep) {
  expect_values_of_one_rank({true, false, true});
  expect_values_of_one_rank({false, true, true, false, true});
}

TEST_F(Sums, TrainsAsOneRankDoes) {
  expect_steps_of_one_rank({.strategy = WEFT_TEST_STRATEGY}, {2, 3});
}

}  // namespace
}  // namespace weft::test
