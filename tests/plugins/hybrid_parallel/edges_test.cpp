// Sizes and precisions at the edge of what the axes take, and jobs that come to nothing.
#include <ATen/CPUGeneratorImpl.h>
#include <weft/nn/layers.hpp>

#include "base/text.hpp"
#include "plugins/support/pools.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

JobOptions of(const std::string& options, const std::string& precision = "fp64",
              const std::string& strategy = "hybrid_parallel") {
  return {.strategy = strategy, .options = "{" + options + "}", .precision = precision};
}

std::string in_mode(const char* mode, const std::string& axes) {
  return fmt::format(R"({}, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "{}")", axes,
                     mode);
}

// Of 23 rows the first two of four ranks have 16 and 7.
TEST(Edges, RanksWithoutARowOfTheVocabularyTakePart) {
  const std::string axes = R"("tp_size": 4, "make_vocab_size_divisible_by": 16)";
  const Trial tied = gpt2_trial("GPT2LMHeadModel", "fp64"),
              untied = llama_trial({"LlamaForCausalLM", 4, false}, "fp64");
  std::vector<Case> cases;
  for (const std::string& options : {axes, in_mode("split_gather", axes), in_mode("ring", axes)})
    for (const Trial& trial : {tied, untied}) cases.push_back({of(options), trial});
  JobOptions accumulated = of(in_mode("split_gather", axes));
  accumulated.accumulate = 2;
  cases.push_back({accumulated, tied});
  expect_gradients_of_one_rank(cases, 4);
}

TEST(Edges, SequencesMayHaveFewerPositionsThanRanks) {
  std::vector<Case> cases;
  for (const int64_t positions : {2, 3}) {
    Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
    trial.batch = [positions, whole = trial.batch](int64_t step) {
      Batch batch = whole(step);
      batch.at("labels").copy_(batch.at("input_ids"));
      for (auto& [name, field] : batch) field = field.narrow(1, 0, positions).contiguous();
      return batch;
    };
    for (const char* mode : {"split_gather", "ring"})
      cases.push_back({of(in_mode(mode, R"("tp_size": 4)")), trial});
    for (const char* mode : {"all_to_all", "ring_attn"})
      cases.push_back({of(in_mode(mode, R"("sp_size": 4)")), trial});
  }
  expect_gradients_of_one_rank(cases, 4);
}

TEST(Edges, AutocastHasTheGradientsOfOneRankUnderAutocast) {
  for (const std::string& options :
       {std::string(R"("tp_size": 2)"), in_mode("split_gather", R"("tp_size": 2)"),
        in_mode("ring", R"("tp_size": 2)"), in_mode("all_to_all", R"("sp_size": 2)"),
        in_mode("ring_attn", R"("sp_size": 2)")}) {
    SCOPED_TRACE(options);
    JobOptions mixed = of(options, "fp32", "torch_ddp");
    mixed.mixed_precision = "bf16";
    expect_half_gradients_of_one_rank(
        mixed, 0.03, {2}, {.model = [](const JobOptions&) {
          return tiny_gpt2(TinyGpt2{.width = 96, .heads = 4, .deviation = 0.05});
        }});
  }
}

// Layers whose input is the same on all ranks must draw the same masks. Attention with divided heads and
// layers on a split sequence need masks of their own.
TEST(Edges, DropoutDrawsForWhatARankHasAlone) {
  on_ranks({4}, [](World& world) {
    for (const bool splits : {false, true}) {
      const std::string axes = R"("tp_size": 4)";
      const Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4, .dropout = 0.3}),
                            of(splits ? in_mode("split_gather", axes) : axes, "fp32"));
      const uint64_t own = static_cast<uint64_t>(world.rank()) + 1;
      int64_t dropouts = 0, attentions = 0;
      for (const auto& module : job.model.module().named_modules()) {
        const auto* const dropout = dynamic_cast<const nn::Dropout*>(module.value().get());
        if (dropout != nullptr && dropout->kind() == "Dropout") {
          ++dropouts;
          EXPECT_EQ(dropout->random_stream, splits ? own : 0) << module.key();
        }
        if (const auto* const layer = dynamic_cast<const nn::Attention*>(module.value().get())) {
          ++attentions;
          EXPECT_EQ(layer->random_stream, own) << module.key();
        }
      }
      EXPECT_EQ(dropouts, 5);
      EXPECT_EQ(attentions, 2);
    }
  });
}

std::vector<at::Tensor> generators_of_all(const World& world) {
  const at::Tensor own = at::detail::getDefaultCPUGenerator().get_state();
  const at::Tensor all = at::empty({world.size(), own.numel()}, at::kByte);
  world.communicator().all_gather(all, own).wait();
  return all.unbind();
}

TEST(Edges, GeneratorsAreAlikeOnATensorAxisAndDifferOnASequenceAxis) {
  on_ranks({4}, [](World& world) {
    const Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4, .dropout = 0.3}),
                          of(in_mode("ring_attn", R"("sp_size": 2, "tp_size": 2)"), "fp32"));
    const std::vector<at::Tensor> of = generators_of_all(world);
    EXPECT_TRUE(of[0].equal(of[1]));
    EXPECT_TRUE(of[2].equal(of[3]));
    EXPECT_FALSE(of[0].equal(of[2]));
  });
}

TEST(Edges, ACriterionNeedsWholeLogits) {
  const Criterion criterion = [](const State& outputs, const Batch&) { return outputs.at("logits").mean(); };
  on_ranks({2}, [&](World& world) {
    const auto boosted = [&](const std::string& options) {
      Model model = tiny_gpt2(TinyGpt2{.width = 16, .heads = 4});
      Booster booster({.strategy = "hybrid_parallel", .options = "{" + options + "}"}, world);
      return booster.boost(model, optim::SGD(model.parameters()), criterion);
    };
    for (const std::string& axes :
         {std::string(R"("tp_size": 2)"), in_mode("all_to_all", R"("sp_size": 2)")}) {
      EXPECT_ERROR(boosted(axes), WEFT_INVALID_ARGUMENT, "a criterion", "parallel_output false");
      EXPECT_GT(boosted(axes + R"(, "parallel_output": false)").train_step(gpt2_batch(2, 1)).loss, -100);
    }
  });
}

// Memory is not enough at first.
TEST(Edges, AModelIsAsItWasAfterAJobThatCameToNothing) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
  const Tensors expected = [&] {
    Job alone = boost(one_rank(), trial.model(of("")), {.precision = "fp64"});
    alone.accumulate_gradients(trial.batch(0));
    return published_gradients(alone);
  }();
  on_ranks({2}, [&](World& world) {
    const JobOptions options =
        of(R"("tp_size": 2, "reduce_bucket_size_in_m": 0.001)", "fp64", "low_level_zero");
    const Model model = trial.model(options);
    {
      const AcceleratorLimit limit(12 << 10);
      EXPECT_ERROR(boost(world, model, options), WEFT_RESOURCE_EXHAUSTED, "WEFT_ACCELERATOR_MEMORY");
    }
    for (const auto& item : model.module().named_parameters())
      EXPECT_TRUE(item.value().is_meta()) << item.key();
    Job job = boost(world, model, of(R"("tp_size": 2)"));
    job.accumulate_gradients(own_part(trial.batch(0), job));
    expect_near(published_gradients(job), expected, 1e-10);
  });
}

TEST(Edges, AVocabularyThatNobodyDividesHasNoMultiple) {
  on_ranks({2}, [](World& world) {
    EXPECT_ERROR(
        boost(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}),
              of(fmt::format(R"("tp_size": 2, "make_vocab_size_divisible_by": 8, "custom_policy": "{}")",
                             WEFT_JSON_POLICY),
                 "fp32")),
        WEFT_UNIMPLEMENTED, "make_vocab_size_divisible_by is 8", "no vocabulary");
  });
}

}  // namespace

}  // namespace weft::test
