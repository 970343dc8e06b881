// Training of models of images: steps against one rank, dropout of split sequences, and what is sent.
#include "base/text.hpp"
#include "plugins/support/bytes.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/vit/tiny_vit.hpp"

namespace weft::test {

namespace {

TEST(VitTraining, TrainsAsOneRankBesideDataParallelism) {
  JobOptions chosen = {.strategy = "hybrid_parallel",
                       .options = R"({"tp_size": 2, "zero_stage": 1})",
                       .recompute = "all",
                       .precision = "fp32"};
  chosen.max_grad_norm = 0.5;
  chosen.accumulate = 2;
  expect_steps_of_one_rank(chosen, {4}, vit_trial({.biases = false}, "fp32"));
}

TEST(VitTraining, LearnsWithDropoutInEverySequenceMode) {
  on_ranks({2}, [](World& world) {
    for (const Split& split : kSplits) {
      if (split.ranks != 2) continue;
      const JobOptions options = laid_out(split, "fp32");
      const TinyVit dropping = {.dropout = 0.1};
      Job job = boost(world, tiny_vit(dropping, "fp32"), options, "adamw");
      double before = 0, after = 0;
      for (int64_t step = 0; step < 20; ++step) {
        after = job.train_step(vit_batch(dropping, 3, 1)).loss;
        if (step == 0) before = after;
      }
      EXPECT_LT(after, before) << split.mode;
    }
  });
}

// All tensor-parallel ranks compute the embeddings of all positions, so they drop the same elements of them.
TEST(VitTraining, DropsTheSameEmbeddingsOnTensorParallelRanks) {
  on_ranks({2}, [](World& world) {
    for (const Split& split : kSplits) {
      const std::string mode = split.mode;
      if (split.ranks != 2 || (mode != "split_gather" && mode != "ring")) continue;
      const TinyVit dropping = {.dropout = 0.5};
      Job job = boost(world, tiny_vit(dropping, "fp64"), laid_out(split, "fp64"));
      job.accumulate_gradients(vit_batch(dropping, 3, 1));
      int64_t found = 0;
      for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK)) {
        const std::string name = shard.param->name;
        if (name != "vit.embeddings.cls_token" && name != "vit.embeddings.position_embeddings") continue;
        ++found;
        ASSERT_TRUE(shard.gradient.defined()) << name;
        at::Tensor mean = shard.gradient.clone();
        EXPECT_GT(mean.abs().max().item<double>(), 0) << name;
        world.communicator().all_reduce(mean, ReduceOp::kSum, true).wait();
        EXPECT_TRUE(is_near(mean.div_(2), shard.gradient, kGradientFp64)) << mode << " " << name;
      }
      EXPECT_EQ(found, 2) << mode;
    }
  });
}

// A block all-reduces two activations in forward and two in backward. Embeddings and head, which are
// replicated, send nothing.
WEFT_RANKS_TEST(VitBytes, TensorParallelBlocksReduceFourActivations, 2, 4) {
  const std::string axes = fmt::format(R"("tp_size": {}, )", world.size());
  const JobOptions options = laid_out({"", axes.c_str(), world.size()}, "fp32");
  Job job = boost(world, tiny_vit({}, "fp32"), options);
  const int64_t activation = 3 * 7 * 12, blocks = 2;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", 4 * blocks * activation * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(vit_batch({}, 3, 1)); }), expected);
  EXPECT_EQ(layer_bytes(tiny_vit({}, "fp32"), options, vit_batch({}, 3, 1)), expected);
}

// A block has two gathers and two scatters in forward, and four gathers and two scatters in backward. The end
// of the sequence is gathered in forward, its begin in backward. Gradients of norms and of the biases of
// row-parallel layers are summed. With 8 positions, which 2 and 4 divide.
WEFT_RANKS_TEST(VitBytes, SplitGatherGathersTheGradientOfTheEmbeddings, 2, 4) {
  const std::string axes = fmt::format(R"("tp_size": {}, )", world.size());
  const JobOptions options = laid_out({"split_gather", axes.c_str(), world.size()}, "fp32");
  const TinyVit vit = {kClassifier, R"("image_size": [2, 21], "patch_size": [2, 3])", 2, 21};
  Job job = boost(world, tiny_vit(vit, "fp32"), options);
  const int64_t activation = 3 * 8 * 12, blocks = 2, ranks = world.size();
  const std::map<std::string, int64_t> expected = {
      {"all_gather", (6 * blocks + 2) * activation * 4 * (ranks - 1) / ranks},
      {"reduce_scatter", 4 * blocks * activation * 4 * (ranks - 1) / ranks},
      {"all_reduce", blocks * (2 * 2 + 2) * 12 * 4 * 2 * (ranks - 1) / ranks}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(vit_batch(vit, 3, 1)); }), expected);
  EXPECT_EQ(layer_bytes(tiny_vit(vit, "fp32"), options, vit_batch(vit, 3, 1)), expected);
}

}  // namespace

}  // namespace weft::test
