// Sequence parallelism of the patches of images in every mode, against one rank.
#include "plugins/support/bytes.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/vit/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

JobOptions in_mode(const Split& split, const char* precision) {
  return test::in_mode(split.mode, split.axes, precision);
}

class VitSequences : public testing::TestWithParam<Split> {};

// 7, 17 and 10 positions, and 2, which are fewer than the ranks.
TEST_P(VitSequences, HaveTheGradientsOfOneRank) {
  JobOptions recomputed = in_mode(GetParam(), "fp64");
  recomputed.recompute = "all";
  expect_gradients_of_one_rank({{in_mode(GetParam(), "fp64"), vit_trial(kImages)},
                                {recomputed, vit_trial(kMaskedImages)},
                                {in_mode(GetParam(), "fp64"), vit_trial(kLargerImages)},
                                {in_mode(GetParam(), "fp64"), vit_trial({kClassifier, kOnePatch, 2, 3})},
                                {in_mode(GetParam(), "fp32"), vit_trial(kImages, "fp32")}},
                               GetParam().ranks);
}

TEST_P(VitSequences, HaveTheGradientsOfOneRankUnderACriterionOfBothOutputs) {
  const Tensors expected = vit_criterion_gradients(one_rank(), {.precision = "fp64"});
  on_ranks({GetParam().ranks}, [&](World& world) {
    expect_near(vit_criterion_gradients(world, in_mode(GetParam(), "fp64")), expected, 1e-10);
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, VitSequences, testing::ValuesIn(slice("VitSequences", kSplits, 4)), name_of);

TEST(VitSequenceAxis, TrainsWithDropout) {
  on_ranks({2}, [](World& world) {
    for (const Split& split : {kSplits[0], kSplits[4], kSplits[7]}) {
      const JobOptions options = in_mode(split, "fp32");
      TinyVit dropping = kImages;
      dropping.dropout = 0.1;
      Job job = boost(world, tiny_vit(options, dropping), options, "adamw");
      double before = 0, after = 0;
      for (int64_t step = 0; step < 20; ++step) {
        after = job.train_step(vit_batch(dropping, 3, 1)).loss;
        if (step == 0) before = after;
      }
      EXPECT_LT(after, before) << split.mode;
    }
  });
}

// A block has two gathers and two scatters in forward, and four gathers and two scatters in backward. The end
// of the sequence is gathered in forward, its begin in backward. Gradients of norms and of the biases of
// row-parallel layers are summed.
WEFT_RANKS_TEST(VitSequenceBytes, SplitGatherGathersTheGradientOfTheEmbeddings, 2, 4) {
  const JobOptions options =
      test::in_mode("split_gather", fmt::format(R"("tp_size": {}, )", world.size()), "fp32");
  const TinyVit vit = {kClassifier, R"("image_size": [2, 21], "patch_size": [2, 3])", 2, 21};
  Job job = boost(world, tiny_vit(options, vit), options);
  const int64_t activation = 3 * 8 * 12, blocks = 2, ranks = world.size();
  const std::map<std::string, int64_t> expected = {
      {"all_gather", (6 * blocks + 2) * activation * 4 * (ranks - 1) / ranks},
      {"reduce_scatter", 4 * blocks * activation * 4 * (ranks - 1) / ranks},
      {"all_reduce", blocks * (2 * 2 + 2) * 12 * 4 * 2 * (ranks - 1) / ranks}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(vit_batch(vit, 3, 1)); }), expected);
}

}  // namespace

}  // namespace weft::test
