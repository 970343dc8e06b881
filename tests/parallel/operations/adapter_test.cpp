// A low-rank adapter of the library samples/adapter, under every kind of parallelism.
#include "parallel/operations/libraries.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

bool is_factor(const std::string& name) {
  return name.find(".lora_") != std::string::npos;
}

void expect_second_step_of_one_rank(const JobOptions& options, const Trial& trial, int ranks) {
  test::expect_second_step_of_one_rank(options, trial, ranks, is_factor);
}

// Losses and gradients are those of the same adapter of tier native.
void expect_those_of_tier_native(const JobOptions& options, double tolerance) {
  const auto trained = [&](const std::string& operation) {
    const Trial trial = adapted(gpt2_trial("GPT2LMHeadModel", options.precision), kGpt2Layers, operation);
    Job job = boost(one_rank(), trial.model(options), options);
    std::vector<double> losses;
    for (int64_t step = 0; step < 3; ++step) losses.push_back(job.train_step(trial.batch(step)).loss);
    return std::pair(losses, published_gradients(job));
  };
  const auto [losses, gradients] = trained("sample.low_rank_stable/1");
  const auto [expected_losses, expected_gradients] = trained("sample.low_rank/1");
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected_losses[i], tolerance);
  ASSERT_EQ(gradients.size(), expected_gradients.size());
  for (const auto& [name, gradient] : expected_gradients)
    EXPECT_LE((gradients.at(name) - gradient).abs().max().item<double>(),
              tolerance * std::max(1.0, gradient.abs().max().item<double>()))
        << name;
}

TEST(StableAdapter, TrainsAsThatOfTierNativeDoes) {
  expect_those_of_tier_native({.precision = "fp64"}, 1e-12);
  expect_those_of_tier_native({.recompute = "all", .precision = "fp64"}, 1e-12);
  expect_those_of_tier_native({.precision = "fp32"}, 1e-5);
  expect_those_of_tier_native({.mixed_precision = "bf16"}, 2e-2);
}

TEST(StableAdapter, HasTheGradientsOfOneRankOnEveryAxis) {
  const Trial trial = adapted(gpt2_trial("GPT2LMHeadModel", "fp64"), kGpt2Layers, "sample.low_rank_stable/1");
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 2})"), trial, 2);
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})"), trial, 4);
  expect_second_step_of_one_rank(
      under("hybrid_parallel",
            R"({"tp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "all_to_all",
                "sp_size": 2})"),
      trial, 4);
  expect_second_step_of_one_rank(under("gemini", "{}"), trial, 2);
  const Trial grouped =
      adapted(llama_trial({"LlamaForCausalLM", 2, false}, "fp64"),
              "layers.*.self_attn.*_proj, layers.*.mlp.*_proj, lm_head", "sample.low_rank_stable/1");
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 4})"), grouped, 4);
}

TEST(Adapter, HasTheGradientsOfOneRankOnTensorAndDataAxes) {
  const Trial trial = adapted(gpt2_trial("GPT2LMHeadModel", "fp64"), kGpt2Layers);
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 2})"), trial, 2);
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})"), trial, 4);
  expect_second_step_of_one_rank(under("torch_ddp", "{}"), trial, 2);
  expect_second_step_of_one_rank(under("gemini", "{}"), trial, 2);
}

// Covers heads of keys that several ranks hold, and the head of a language model.
TEST(Adapter, HasTheGradientsOfOneRankInGroupedHeadsAndVocabularies) {
  const Trial trial = adapted(llama_trial({"LlamaForCausalLM", 2, false}, "fp64"),
                              "layers.*.self_attn.*_proj, layers.*.mlp.*_proj, lm_head");
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 2})"), trial, 2);
  expect_second_step_of_one_rank(under("hybrid_parallel", R"({"tp_size": 4})"), trial, 4);
}

TEST(Adapter, HasTheGradientsOfOneRankWithSplitSequences) {
  const Trial trial = adapted(gpt2_trial("GPT2LMHeadModel", "fp64"), kGpt2Layers);
  const auto split = [](const std::string& mode) {
    return under("hybrid_parallel",
                 R"({"tp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": ")" +
                     mode + R"(", "sp_size": 2})");
  };
  expect_second_step_of_one_rank(split("all_to_all"), trial, 4);
  expect_second_step_of_one_rank(split("ring_attn"), trial, 4);
}

WEFT_RANKS_TEST(Adapter, IsRefusedWhereTensorParallelRanksSplitSequences, 2) {
  for (const char* mode : {"split_gather", "ring"}) {
    const JobOptions options = under(
        "hybrid_parallel",
        std::string(R"({"tp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": ")") +
            mode + "\"}");
    const Trial trial = adapted(gpt2_trial("GPT2LMHeadModel", "fp64"), kGpt2Layers);
    EXPECT_ERROR(boost(world, trial.model(options), options), WEFT_INVALID_ARGUMENT, "low-rank adapter",
                 "all_to_all or ring_attn");
  }
}

WEFT_RANKS_TEST(Adapter, IsRefusedWhereRanksHaveAnother, 2) {
  const JobOptions options = under("torch_ddp", "{}");
  const auto boosted = [&](int64_t alpha) {
    Model model = tiny_gpt2("fp64");
    model.adapt(R"({"operation": "sample.low_rank/1", "on": "h.*.attn.c_attn", "rank": 2, "alpha": )" +
                std::to_string(alpha) + "}");
    return boost(world, model, options);
  };
  EXPECT_ERROR(boosted(4 + world.rank()), WEFT_FAILED_PRECONDITION, "adapter attributes alpha",
               "rank 0 has 4", "rank 1 has 5");
  boosted(4);
}

TEST(Adapter, RefusesWhatItCannotBeAddedTo) {
  const auto adapt = [](const std::string& adapter) { tiny_gpt2().adapt(adapter); };
  EXPECT_ERROR(adapt("/none.json"), WEFT_NOT_FOUND, "/none.json");
  EXPECT_ERROR(adapt(" "), WEFT_NOT_FOUND, "adapter \" \" is neither a JSON object nor a file");
  EXPECT_ERROR(adapt(R"({"on": "h.*"})"), WEFT_INVALID_ARGUMENT, "has no text \"operation\"");
  EXPECT_ERROR(adapt(R"({"operation": "sample.low_rang/1", "on": "h.*"})"), WEFT_NOT_FOUND,
               "no operation is called \"sample.low_rang/1\"");
  EXPECT_ERROR(adapt(R"({"operation": "weft.dropout/1", "on": "drop"})"), WEFT_INVALID_ARGUMENT,
               "weft.dropout/1 adds no parameters");
  EXPECT_ERROR(adapt(R"({"operation": "sample.low_rank/1", "on": "h.*.attn.c_attn", "rang": 3})"),
               WEFT_INVALID_ARGUMENT, "attribute \"rang\"", "did you mean \"rank\"?");
  EXPECT_ERROR(adapt(low_rank("h.*.attn.c_attn", 0)), WEFT_INVALID_ARGUMENT, "must be at least 1");
  EXPECT_ERROR(adapt(low_rank("h.*.ln_1")), WEFT_INVALID_ARGUMENT, "is of kind LayerNorm");
  EXPECT_ERROR(adapt(low_rank("h.*.attn.c_atn")), WEFT_INVALID_ARGUMENT, "matches no module",
               "h.{0..1}.attn.c_attn");
  Model model = tiny_gpt2();
  model.adapt(low_rank(kGpt2Layers));
  EXPECT_ERROR(model.adapt(low_rank(kGpt2Layers)), WEFT_FAILED_PRECONDITION, "adapted already");
  EXPECT_EQ(model.parameters().names.size(), 16u);
}

}  // namespace

}  // namespace weft::test
