// Sequences that ranks share out; tests/policies trains every family in every mode.
#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "opening/model_state.hpp"
#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

TEST(SequenceAxis, TrainsAsOneRankWithClippingAndRecomputation) {
  for (const Split& split :
       {Split{"ring", R"("tp_size": 2, )", 2}, Split{"all_to_all", R"("sp_size": 2, "zero_stage": 1, )", 2},
        Split{"ring_attn", R"("sp_size": 2, "tp_size": 2, )", 4}}) {
    JobOptions options = in_mode(split.mode, split.axes, "fp32");
    options.max_grad_norm = 0.05;
    options.recompute = "all";
    options.accumulate = 2;
    expect_steps_of_one_rank(options, {split.ranks}, gpt2_trial("GPT2LMHeadModel", "fp32"));
  }
}

TEST(SequenceAxis, IsDataParallelToEveryStrategy) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
  std::vector<Case> cases = {{in_mode("ring_attn", R"("sp_size": 2, "zero_stage": 2, )"), trial}};
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    for (const char* mode : {"all_to_all", "ring_attn"})
      cases.push_back({in_mode(mode, R"("sp_size": 2, )", "fp64", strategy), trial});
  expect_gradients_of_one_rank(cases, 4);
}

TEST(FlashAttention, OffHasTheSameGradientsStepByStep) {
  for (const char* axes : {R"("tp_size": 2)", R"("sp_size": 2, "enable_sequence_parallelism": true,
                                                "sequence_parallelism_mode": "ring_attn")"})
    expect_gradients_of_one_rank({.strategy = "hybrid_parallel",
                                  .options = fmt::format(R"({{{}, "enable_flash_attention": false}})", axes),
                                  .precision = "fp64"},
                                 {2}, gpt2_trial("GPT2LMHeadModel", "fp64"));
}

// One kernel keeps the result and a number for each row, the formula all probabilities: 3 rows of 2 heads of
// this rank with 64 x 64 of them.
TEST(FlashAttention, HoldsNoProbabilities) {
  on_ranks({2}, [](World& world) {
    count_memory();
    const auto peak = [&](const char* flag) {
      Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4, .positions = 64}),
                      {.strategy = "hybrid_parallel",
                       .options = fmt::format(R"({{"tp_size": 2, "enable_flash_attention": {}}})", flag),
                       .recompute = "off"});
      const at::Tensor ids = at::randint(23, {3, 64}, at::kLong);
      reset_peak_allocated_bytes();
      const int64_t before = allocated_bytes();
      job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}});
      return peak_allocated_bytes() - before;
    };
    const int64_t layers = 2, probabilities = 3 * 2 * 64 * 64 * 4;
    EXPECT_GT(peak("false"), peak("true") + layers * probabilities);
  });
}

TEST(SequenceAxis, GivesLogitsOfItsPositionsOrAll) {
  const Batch batch = gpt2_batch(3, 1);
  const auto model = [] { return tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}); };
  Job alone = boost(one_rank(), model(), {});
  const at::Tensor expected = alone.forward(batch).at("logits");
  const Evaluation evaluation = alone.evaluate(batch);
  on_ranks({2}, [&](World& world) {
    Job split = boost(world, model(), in_mode("all_to_all", R"("sp_size": 2, )", "fp32"));
    const int64_t begin = world.rank() == 0 ? 0 : 3;
    EXPECT_TRUE(
        is_near(split.forward(batch).at("logits"), expected.narrow(1, begin, 3 + world.rank()), 1e-5));
    EXPECT_NEAR(split.evaluate(batch).loss(), evaluation.loss(), 1e-5);
    EXPECT_EQ(split.evaluate(batch).labels(), evaluation.labels());
    Job whole =
        boost(world, model(), in_mode("ring_attn", R"("sp_size": 2, "parallel_output": false, )", "fp32"));
    EXPECT_TRUE(is_near(whole.forward(batch).at("logits"), expected, 1e-5));
    EXPECT_NEAR(whole.evaluate(batch).loss(), evaluation.loss(), 1e-5);
  });
}

// With b samples, s positions, h channels and P ranks a block exchanges q, k, v and what attention gives, of
// b s h / P each, forward and backward: 8 (b s h / P) (P - 1) / P elements.
WEFT_RANKS_TEST(SequenceBytes, AllToAllExchangesEightParts, 2, 4) {
  const int64_t layers = 2, ranks = world.size();
  JobOptions options = in_mode("all_to_all", fmt::format(R"("sp_size": {}, )", ranks), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}), options);
  const at::Tensor ids = at::randint(23, {3, 8}, at::kLong);
  const auto sent = sent_bytes([&] { job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}}); });
  const int64_t part = 3 * 8 * 16 / ranks;
  EXPECT_EQ(sent.at("all_to_all"), layers * 8 * part * (ranks - 1) / ranks * 4);
}

// c is the part of keys and values of a rank: they pass the other ranks forward, and once more backward,
// followed by their gradients, which also come home.
WEFT_RANKS_TEST(SequenceBytes, RingAttentionSendsKeysAndValuesRound, 2, 4) {
  const int64_t layers = 2, ranks = world.size();
  for (const char* inner : {"", R"("inner_ring_size": 2, )"}) {
    JobOptions options = in_mode("ring_attn", fmt::format(R"("sp_size": {}, {})", ranks, inner), "fp32");
    options.recompute = "off";
    Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}), options);
    const at::Tensor ids = at::randint(23, {3, 8}, at::kLong);
    const auto sent = sent_bytes([&] { job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}}); });
    const int64_t c = 2 * 3 * 8 / ranks * 16;
    EXPECT_EQ(sent.at("send"), layers * ((ranks - 1) * c + (ranks - 1) * c + ranks * c) * 4);
  }
}

// What split_gather gathers and scatters for its linear layers travels in parts: as many bytes.
WEFT_RANKS_TEST(SequenceBytes, RingSendsWhatSplitGatherDoes, 2, 4) {
  const auto sent_in = [&](const char* mode) {
    JobOptions options = in_mode(mode, fmt::format(R"("tp_size": {}, )", world.size()), "fp32");
    options.recompute = "off";
    Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}), options);
    const at::Tensor ids = at::randint(23, {3, 8}, at::kLong);
    return sent_bytes([&] { job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}}); });
  };
  auto ring = sent_in("ring"), gathered = sent_in("split_gather");
  EXPECT_GT(ring["send"], ring["all_gather"] + ring["reduce_scatter"]);
  EXPECT_EQ(ring["send"] + ring["all_gather"] + ring["reduce_scatter"],
            gathered["all_gather"] + gathered["reduce_scatter"]);
  EXPECT_EQ(ring["all_reduce"], gathered["all_reduce"]);
}

// In every mode, with parts of unequal lengths and recomputation. Besides, the ranks of a sequence axis
// all-reduce the gradients of the model, because they are data-parallel.
TEST(SequenceBytes, AreWhatThePlanCounts) {
  const auto model = [] { return tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}); };
  const at::Tensor ids = at::randint(23, {3, 7}, at::kLong);
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  on_ranks({2, 4}, [&](World& world) {
    for (const Split& split : kSplits) {
      if (split.ranks != world.size()) continue;
      SCOPED_TRACE(std::string(split.mode) + split.axes);
      JobOptions options = laid_out(split, "fp32");
      options.recompute = "all";
      Job job = boost(world, model(), options);
      auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
      if (world.rank() != 0) continue;
      auto counted = layer_bytes(model(), options, batch);
      EXPECT_FALSE(counted.empty());
      if (job.model.shared().bindings().mesh().sequence_size() > 1)
        for (auto* bytes : {&sent, &counted}) bytes->erase("all_reduce");
      EXPECT_EQ(counted, sent);
    }
  });
}

// What forward keeps for backward is divided by the ranks that share the positions: in a job whose
// activations are far more than its parameters.
TEST(SequenceBytes, ActivationsAreShared) {
  on_ranks({2}, [](World& world) {
    count_memory();
    const auto peak = [&](const World& ranks, JobOptions options) {
      options.recompute = "off";
      Job job = boost(ranks, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4, .positions = 256}), options);
      const at::Tensor ids = at::randint(23, {4, 256}, at::kLong);
      job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}});
      job.optimizer.zero_grad();
      const int64_t before = allocated_bytes();
      reset_peak_allocated_bytes();
      job.accumulate_gradients({{"input_ids", ids}, {"labels", ids}});
      return static_cast<double>(peak_allocated_bytes() - before);
    };
    const double whole = peak(one_rank(), {});
    for (const char* mode : {"all_to_all", "ring_attn"})
      EXPECT_LT(peak(world, in_mode(mode, R"("sp_size": 2, )", "fp32")), 0.58 * whole) << mode;
    const double split_layers = peak(world, {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"});
    for (const char* mode : {"split_gather", "ring"})
      EXPECT_LT(peak(world, in_mode(mode, R"("tp_size": 2, )", "fp32")), 0.85 * split_layers) << mode;
    world.communicator().barrier();
  });
}

TEST(SequenceOptions, AreRefusedWhereTheyMeanNothing) {
  on_ranks({2}, [](World& world) {
    const auto expect_refusal = [&](const std::string& options, auto... parts) {
      const JobOptions job = {.strategy = "hybrid_parallel", .options = options};
      EXPECT_ERROR(boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}), job), WEFT_INVALID_ARGUMENT,
                   parts...);
    };
    for (const char* option : {R"("sp_size": 2)", R"("sequence_parallelism_mode": "ring")",
                               R"("inner_ring_size": 2)", R"("enable_sequence_overlap": true)"})
      expect_refusal(fmt::format("{{{}}}", option), "no effect", "enable_sequence_parallelism is false");
    const auto in = [](const char* more) {
      return fmt::format(R"({{"enable_sequence_parallelism": true, {}}})", more);
    };
    expect_refusal(in(R"("sequence_parallelism_mode": "ring")"), "ranks of tp_size, which is 1");
    expect_refusal(in(R"("tp_size": 2)"), "\"all_to_all\"", "ranks of sp_size, which is 1");
    expect_refusal(in(R"("sp_size": 2, "inner_ring_size": 2)"), "inner_ring_size", "no effect",
                   "sequence_parallelism_mode ring_attn");
    expect_refusal(in(R"("sp_size": 2, "enable_sequence_overlap": true)"), "enable_sequence_overlap",
                   "no effect", "sequence_parallelism_mode split_gather");
    expect_refusal(in(R"("sp_size": 4)"), "sp_size is 4", "the 2 data-parallel");
    expect_refusal(in(R"("sequence_parallelism_mode": "ring_attn", "sp_size": 2, "inner_ring_size": 3)"),
                   "must divide sp_size (this is 2)");
  });
}

TEST(SequenceOptions, HeadsMustDivideByTheRanksThatShareThem) {
  on_ranks({4}, [](World& world) {
    EXPECT_ERROR(boost(world, tiny_gpt2(TinyGpt2{.width = 12, .heads = 6}),
                       in_mode("all_to_all", R"("sp_size": 2, "tp_size": 2, )", "fp32")),
                 WEFT_INVALID_ARGUMENT, "\"n_head\" is 6", "multiple of 4");
  });
}

}  // namespace

}  // namespace weft::test
