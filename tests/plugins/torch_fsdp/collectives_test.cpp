// What is gathered and reduced when, by the hooks that start it.
#include "plugins/torch_fsdp/support.hpp"
#include "plugins/torch_fsdp/traced.hpp"

namespace weft::test {

namespace {

using Lines = std::vector<std::string>;

// Units embed (78 elements, tied to head), blocks.0 and blocks.1 (54 each), head.
constexpr const char* kTwoBlocks = "\"gated\": false, \"blocks\": 2";

Lines collectives_of_step(World& world, const std::string& options, TrainingOptions training = {}) {
  Traced traced = trace(world, make_toy(kTwoBlocks), options, std::move(training));
  traced.training->run_step({own_part(toy_batch(4, 1), world)});
  return traced.collectives();
}

const Lines kForward = {"before_forward embed: all_gather 39", "before_forward blocks.0: all_gather 27",
                        "before_forward blocks.1: all_gather 27"};

Lines after_forward(const Lines& backward) {
  Lines all = kForward;
  all.insert(all.end(), backward.begin(), backward.end());
  return all;
}

WEFT_RANKS_TEST(Collectives, PrefetchOneUnitAheadInBackwardAndGatherATiedWeightOnce, 2) {
  const Lines expected = after_forward(
      {"before_backward head: all_gather 27", "before_backward blocks.1: all_gather 27",
       "after_backward blocks.1: reduce_scatter 54", "after_backward blocks.0: reduce_scatter 54",
       "after_backward embed: reduce_scatter 78"});
  EXPECT_EQ(collectives_of_step(world, "{}"), expected);
  TrainingOptions recomputed;
  recomputed.booster.recompute = "all";
  EXPECT_EQ(collectives_of_step(world, "{}", recomputed), expected);
}

WEFT_RANKS_TEST(BackwardPrefetch, PostGathersBetweenRunningAndReducingAUnit, 2) {
  EXPECT_EQ(
      collectives_of_step(world, R"({"backward_prefetch": "BACKWARD_POST"})"),
      after_forward(
          {"after_backward head: all_gather 27", "after_backward blocks.1: all_gather 27, reduce_scatter 54",
           "after_backward blocks.0: reduce_scatter 54", "after_backward embed: reduce_scatter 78"}));
}

WEFT_RANKS_TEST(BackwardPrefetch, NoneGathersWhatIsNeeded, 2) {
  EXPECT_EQ(
      collectives_of_step(world, R"({"backward_prefetch": "none"})"),
      after_forward({"before_backward blocks.1: all_gather 27", "after_backward blocks.1: reduce_scatter 54",
                     "before_backward blocks.0: all_gather 27", "after_backward blocks.0: reduce_scatter 54",
                     "after_backward embed: reduce_scatter 78"}));
}

WEFT_RANKS_TEST(ForwardPrefetch, GathersOneUnitAhead, 2) {
  const Lines lines = collectives_of_step(world, R"({"forward_prefetch": true})");
  ASSERT_GE(lines.size(), 2);
  EXPECT_EQ(Lines(lines.begin(), lines.begin() + 2),
            (Lines{"before_forward embed: all_gather 39, all_gather 27",
                   "before_forward blocks.0: all_gather 27"}));
}

WEFT_RANKS_TEST(LimitAllGathers, OffPrefetchesAllThatIsLeft, 2) {
  EXPECT_EQ(collectives_of_step(world, R"({"forward_prefetch": true, "limit_all_gathers": false})"),
            (Lines{"before_forward embed: all_gather 39, all_gather 27, all_gather 27",
                   "before_backward head: all_gather 27, all_gather 27",
                   "after_backward blocks.1: reduce_scatter 54", "after_backward blocks.0: reduce_scatter 54",
                   "after_backward embed: reduce_scatter 78"}));
}

WEFT_RANKS_TEST(ShardingStrategy, ShardGradOpGathersOnce, 2) {
  EXPECT_EQ(collectives_of_step(world, R"({"sharding_strategy": "SHARD_GRAD_OP"})"),
            after_forward({"after_backward blocks.1: reduce_scatter 54",
                           "after_backward blocks.0: reduce_scatter 54",
                           "after_backward embed: reduce_scatter 78"}));
}

WEFT_RANKS_TEST(ShardingStrategy, NoShardSumsWholeGradients, 2) {
  EXPECT_EQ(collectives_of_step(world, R"({"sharding_strategy": "NO_SHARD"})"),
            (Lines{"after_backward blocks.1: all_reduce 54", "after_backward blocks.0: all_reduce 54",
                   "after_backward embed: all_reduce 78"}));
}

// A sum over the replicas begins when the next unit's is divided, so both run beside a backward.
WEFT_RANKS_TEST(ShardingStrategy, HybridShardSumsPartsOverTheReplicas, 4) {
  const std::string options = R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 2})";
  EXPECT_EQ(collectives_of_step(world, options),
            after_forward({"before_backward head: all_gather 27", "before_backward blocks.1: all_gather 27",
                           "after_backward blocks.1: reduce_scatter 54",
                           "after_backward blocks.0: all_reduce 27, reduce_scatter 54",
                           "after_backward embed: all_reduce 27, reduce_scatter 78",
                           "end_backward: all_reduce 39"}));
}

WEFT_RANKS_TEST(AutoWrapPolicy, NoneGathersTheModelAtOnce, 2) {
  EXPECT_EQ(collectives_of_step(world, R"({"auto_wrap_policy": "none"})"),
            (Lines{"before_forward embed: all_gather 93", "after_backward embed: reduce_scatter 186"}));
}

WEFT_RANKS_TEST(AutoWrapPolicy, SizeClosesAGroupOfUnitsWhenItIsLargeEnough, 2) {
  EXPECT_EQ(
      collectives_of_step(world, R"({"auto_wrap_policy": "size", "min_num_params": 100})"),
      (Lines{"before_forward embed: all_gather 39, all_gather 27", "before_forward blocks.1: all_gather 27",
             "before_backward head: all_gather 27", "after_backward blocks.1: reduce_scatter 54",
             "after_backward embed: reduce_scatter 78, reduce_scatter 54"}));
}

WEFT_RANKS_TEST(NoSync, ReducesNothingAndShardGradOpKeepsWhatItGathered, 2) {
  const Lines reductions = {"after_backward blocks.1: reduce_scatter 54",
                            "after_backward blocks.0: reduce_scatter 54",
                            "after_backward embed: reduce_scatter 78"};
  const Batch batch = own_part(toy_batch(4, 1), world);
  Traced full = trace(world, make_toy(kTwoBlocks), "{}");
  const Lines gathers =
      after_forward({"before_backward head: all_gather 27", "before_backward blocks.1: all_gather 27"});
  full.training->set_synchronise(false);
  for (int repeat = 0; repeat < 2; ++repeat) {
    full.training->run_step({batch});
    EXPECT_EQ(full.collectives(), gathers);
    full.forget();
  }
  Traced kept = trace(world, make_toy(kTwoBlocks), R"({"sharding_strategy": "SHARD_GRAD_OP"})");
  kept.training->set_synchronise(false);
  kept.training->run_step({batch});
  EXPECT_EQ(kept.collectives(), kForward);
  kept.forget();
  kept.training->run_step({batch});
  EXPECT_EQ(kept.collectives(), Lines{});
  // The values change: what was gathered is of no use.
  kept.training->bindings().values_changed(WEFT_REASON_UPDATE);
  kept.training->run_step({batch});
  EXPECT_EQ(kept.collectives(), kForward);
  kept.forget();
  kept.training->set_synchronise(true);
  kept.training->run_step({batch});
  EXPECT_EQ(kept.collectives(), reductions);
}

WEFT_RANKS_TEST(Evaluation, GathersEachUnitOnce, 2) {
  for (const char* options : {"{}", R"({"sharding_strategy": "SHARD_GRAD_OP"})"}) {
    Traced traced = trace(world, make_toy(kTwoBlocks), options);
    for (int repeat = 0; repeat < 2; ++repeat) {
      traced.training->run_forward({own_part(toy_batch(4, 1), world)});
      EXPECT_EQ(traced.collectives(), kForward) << "and releases it";
      traced.forget();
    }
  }
}

WEFT_RANKS_TEST(FrozenParameters, AreGatheredButNotReduced, 2) {
  // The tied weight and blocks.0 are frozen.
  Traced traced = trace(world, make_toy("\"gated\": false, \"blocks\": 2, \"frozen\": 2"), "{}");
  traced.training->run_step({own_part(toy_batch(4, 1), world)});
  EXPECT_EQ(traced.collectives(),
            after_forward({"before_backward head: all_gather 27", "before_backward blocks.1: all_gather 27",
                           "after_backward blocks.1: reduce_scatter 54"}));
}

}  // namespace

}  // namespace weft::test
