// Sequence parallelism of an encoder and a decoder, and what it sends.
#include "plugins/support/bytes.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/t5/tiny_t5.hpp"
#include "support/expect_error.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

JobOptions in_mode(const Split& split, const char* precision) {
  return test::in_mode(split.mode, split.axes, precision);
}

TEST(T5SequenceAxis, TrainsAsOneRankWithClippingAndRecomputation) {
  constexpr Split kTrained[] = {{"split_gather", R"("tp_size": 2, )", 2},
                                {"ring_attn", R"("sp_size": 2, "zero_stage": 1, )", 2}};
  for (const Split& split : slice("T5SequenceAxis trains", kTrained, 1)) {
    JobOptions options = in_mode(split, "fp32");
    options.max_grad_norm = 0.5;
    options.recompute = "all";
    expect_steps_of_one_rank(options, {split.ranks}, t5_trial(kGeneration, kTied, 5e-5));
  }
}

TEST(T5SequenceAxis, GivesTheOutputsOfOneRank) {
  const Batch batch = t5_batch(kGeneration, 4, 1);
  Job whole = boost(one_rank(), tiny_t5(under("none", "{}", "fp32"), kGeneration, kTied), {});
  const State expected = whole.forward(batch);
  const double loss = whole.evaluate(batch).loss();
  on_ranks({2}, [&](World& world) {
    for (const Split& split : {kSplits[0], kSplits[4], kSplits[7]}) {
      const JobOptions options = in_mode(split, "fp32");
      Job job = boost(world, tiny_t5(options, kGeneration, kTied), options);
      const char* encoded = "encoder_last_hidden_state";
      EXPECT_TRUE(is_near(job.forward(batch).at(encoded), expected.at(encoded), 1e-5)) << split.mode;
      EXPECT_NEAR(job.evaluate(batch).loss(), loss, 1e-5) << split.mode;
    }
  });
}

TEST(T5SequenceAxis, TrainsWithDropout) {
  const std::vector<Split> splits =
      slice("T5SequenceAxis dropout", std::vector{kSplits[0], kSplits[4], kSplits[7]}, 1);
  on_ranks({2}, [&](World& world) {
    for (const Split& split : splits) {
      const JobOptions options = in_mode(split, "fp32");
      Job job = boost(world, tiny_t5(options, kGeneration, kTied, 0.1), options);
      double before = 0, after = 0;
      for (int64_t step = 0; step < 30; ++step) {
        after = job.train_step(t5_batch(kGeneration, 3, 1)).loss;
        if (step == 0) before = after;
      }
      EXPECT_LT(after, before) << split.mode;
    }
  });
}

TEST(CrossAttention, MustNameASequenceThatBegins) {
  const TemporaryFolder folder;
  folder.file("policy.json",
              R"({"name": "astray", "entries": [{"on": "decoder.block.*.layer.1.EncDecAttention",
      "operation": "weft.cross_attention/1", "source": "coder"}]})");
  on_ranks({2}, [&](World& world) {
    const JobOptions options =
        under("hybrid_parallel",
              fmt::format(R"({{"tp_size": 2, "custom_policy": "{}/policy.json"}})", folder.path()), "fp32");
    EXPECT_ERROR(boost(world, tiny_t5(options, kGeneration, kTied), options), WEFT_INVALID_ARGUMENT,
                 "attends to a sequence of \"coder\", but none begins there");
  });
}

// Sequence lengths that are multiples of the number of ranks, so that no padding is sent.
Batch even_batch() {
  const at::Tensor ids = at::randint(23, {3, 8}, at::kLong);
  return {{"input_ids", ids}, {"labels", ids.narrow(1, 0, 4).clone()}};
}

// Nobody sums the gradients of the encoder's output over the tensor axis, so the encoder's parameters, which
// every rank holds, get other gradients on each. Each strategy does what it must.
TEST(TensorAxis, NamesThePolicyWhereItsRanksDiverge) {
  const TemporaryFolder folder;
  folder.file("policy.json", R"({"name": "astray", "entries": [
      {"on": "decoder.block.*.layer.1.EncDecAttention.q", "operation": "weft.linear_column/1"},
      {"on": "decoder.block.*.layer.1.EncDecAttention.[kv]", "operation": "weft.linear_column/1",
       "input": "entered"},
      {"on": "decoder.block.*.layer.1.EncDecAttention.o", "operation": "weft.linear_row/1"},
      {"divide": "decoder.block.*.layer.1.EncDecAttention", "attribute": "n_heads", "by": "tensor_size"},
      {"on": "encoder.stream_begin", "operation": "weft.parallel_input/1"}]})");
  on_ranks({2}, [&](World& world) {
    const JobOptions options =
        under("hybrid_parallel",
              fmt::format(R"({{"tp_size": 2, "custom_policy": "{}/policy.json"}})", folder.path()), "fp32");
    Job job = boost(world, tiny_t5(options, kGeneration, kTied), options);
    job.train_step(even_batch());
    EXPECT_ERROR(job.train_step(even_batch()), WEFT_INTERNAL, "is not the same on the ranks",
                 "the strategy did what it must", "the shard policy leaves ");
  });
}

constexpr int64_t kSource = 3 * 8, kTarget = 3 * 4, kWidth = 12, kInner = 4 * 5, kBlocks = 2;

// An encoder block has two gathers and two scatters in forward, and four gathers and two scatters in
// backward; a decoder block has three in place of each two. The encoder's output is gathered once and its
// gradient scattered once, for any number of blocks that read it. The embedding of each stack is scattered
// and its gradient gathered; the input of the head is gathered and its gradient summed. Gradients of norms
// are summed.
WEFT_RANKS_TEST(T5SequenceBytes, SplitGatherGathersTheSourceOnce, 2, 4) {
  const std::string axes = fmt::format(R"("tp_size": {}, )", world.size());
  const JobOptions options = in_mode({"split_gather", axes.c_str(), world.size()}, "fp32");
  Job job = boost(world, tiny_t5(options, kGeneration, kTied), options);
  const int64_t source = kSource * kWidth, target = kTarget * kWidth, ranks = world.size();
  const int64_t norms = (2 * kBlocks + 1 + 3 * kBlocks + 1) * kWidth;
  const auto sent = [&](int64_t elements) { return elements * 4 * (ranks - 1) / ranks; };
  const std::map<std::string, int64_t> expected = {
      {"all_gather", sent((6 * kBlocks + 2) * source + (9 * kBlocks + 2) * target)},
      {"reduce_scatter", sent((4 * kBlocks + 2) * source + (6 * kBlocks + 1) * target)},
      {"all_reduce", 2 * sent(target + 3 * kTarget + norms)}};
  const Batch batch = even_batch();
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
  EXPECT_EQ(layer_bytes(tiny_t5(options, kGeneration, kTied), options, batch), expected);
}

// An encoder block exchanges q, k, v and the result of attention, in forward and backward: eight tensors. A
// decoder block also exchanges q and the result of cross-attention, and k and v of the encoder's output.
WEFT_RANKS_TEST(T5SequenceBytes, AllToAllExchangesKeysAndValuesOfTheSource, 2, 4) {
  const std::string axes = fmt::format(R"("sp_size": {}, )", world.size());
  const JobOptions options = in_mode({"all_to_all", axes.c_str(), world.size()}, "fp32");
  Job job = boost(world, tiny_t5(options, kGeneration, kTied), options);
  const int64_t source = kSource * kInner / world.size(), target = kTarget * kInner / world.size();
  const int64_t elements = kBlocks * (8 * source + 12 * target + 4 * source);
  const Batch batch = even_batch();
  const auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
  EXPECT_EQ(sent.at("all_to_all"), elements * 4 * (world.size() - 1) / world.size());
  EXPECT_FALSE(sent.contains("all_gather"));
  EXPECT_EQ(layer_bytes(tiny_t5(options, kGeneration, kTied), options, batch).at("all_to_all"),
            sent.at("all_to_all"));
}

// Keys and values of the encoder's output pass around the ring in forward and backward, their gradients in
// backward.
WEFT_RANKS_TEST(T5SequenceBytes, RingAttentionSendsTheSourceRoundToo, 2, 4) {
  const std::string axes = fmt::format(R"("sp_size": {}, )", world.size());
  const JobOptions options = in_mode({"ring_attn", axes.c_str(), world.size()}, "fp32");
  Job job = boost(world, tiny_t5(options, kGeneration, kTied), options);
  const Batch batch = {{"input_ids", at::randint(23, {3, 16}, at::kLong)},
                       {"labels", at::randint(23, {3, 8}, at::kLong)}};
  const auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
  const int64_t ranks = world.size(), source = 2 * 3 * 16 * kInner / ranks, target = source / 2;
  EXPECT_EQ(sent.at("send"), kBlocks * (2 * source + target) * (2 * (ranks - 1) + ranks) * 4);
  EXPECT_EQ(layer_bytes(tiny_t5(options, kGeneration, kTied), options, batch).at("send"), sent.at("send"));
}

}  // namespace

}  // namespace weft::test
