// Tensor parallelism, alone and with every kind of data parallelism, against one rank.
#include "plugins/support/parity.hpp"

namespace weft::test {

namespace {

constexpr double kTensorFp32 = 5e-5, kTensorFp64 = 1e-10;

constexpr const char* kSplitGather =
    R"(, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "split_gather"})";

double tensor_tolerance(const std::string& precision) {
  return precision == "fp64" ? kTensorFp64 : kTensorFp32;
}

JobOptions hybrid(const std::string& options, const std::string& precision = "fp32") {
  return {.strategy = "hybrid_parallel", .options = options, .precision = precision};
}

// 23 tokens and 3 labels: no number of ranks divides them.
Batch batch_of(const std::string& architecture, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const auto random = [](int64_t high, std::vector<int64_t> shape) {
    return at::randint(high, shape, at::kLong);
  };
  const at::Tensor ids = random(22, {samples, 7}) + 1;
  if (architecture == "GPT2ForSequenceClassification")
    return {{"input_ids", ids}, {"labels", random(3, {samples})}};
  if (architecture == "GPT2ForTokenClassification")
    return {{"input_ids", ids}, {"labels", random(3, {samples, 7})}};
  if (architecture == "GPT2ForQuestionAnswering")
    return {{"input_ids", ids},
            {"start_positions", random(7, {samples})},
            {"end_positions", random(7, {samples})}};
  if (architecture == "GPT2DoubleHeadsModel")
    return {{"input_ids", random(23, {samples, 2, 7})},
            {"mc_token_ids", random(7, {samples, 2})},
            {"labels", random(23, {samples, 2, 7})},
            {"mc_labels", random(2, {samples})}};
  return gpt2_batch(samples, seed);
}

Trial trial_of(const std::string& architecture, const std::string& precision) {
  // Added to the logits of every position, or every choice, alike.
  static const std::map<std::string, std::vector<std::string>> kWithoutGradient = {
      {"GPT2ForQuestionAnswering", {"qa_outputs.bias", "transformer.ln_f.bias"}},
      {"GPT2DoubleHeadsModel", {"multiple_choice_head.summary.bias"}}};
  const auto without = kWithoutGradient.find(architecture);
  return {
      .tolerance = tensor_tolerance(precision),
      .without_gradient = without == kWithoutGradient.end() ? std::vector<std::string>() : without->second,
      .model =
          [=](const JobOptions& options) {
            return tiny_gpt2(TinyGpt2{.architecture = architecture,
                                      .precision = options.precision,
                                      .width = 16,
                                      .heads = 4,
                                      .more = R"(, "num_labels": 3, "pad_token_id": 0,
                                                     "summary_first_dropout": 0.0,
                                                     "summary_proj_to_labels": true)"});
          },
      .batch = [=](int64_t step) { return batch_of(architecture, 6, step); }};
}

class Classes : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Classes, HaveTheGradientsOfOneRank) {
  const auto& [architecture, precision] = GetParam();
  const Trial trial = trial_of(architecture, precision);
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 2})", precision), {2}, trial);
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 4})", precision), {4}, trial);
}

// 7 positions: no number of ranks divides them.
TEST_P(Classes, HaveTheGradientsOfOneRankWithSplitSequences) {
  const auto& [architecture, precision] = GetParam();
  const Trial trial = trial_of(architecture, precision);
  for (const int size : {2, 4}) {
    JobOptions options = hybrid("{\"tp_size\": " + std::to_string(size) + kSplitGather, precision);
    expect_gradients_of_one_rank(options, {size}, trial);
    options.recompute = "all";
    expect_gradients_of_one_rank(options, {size}, trial);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, Classes,
                         testing::Combine(testing::Values("GPT2LMHeadModel", "GPT2DoubleHeadsModel",
                                                          "GPT2ForSequenceClassification",
                                                          "GPT2ForTokenClassification",
                                                          "GPT2ForQuestionAnswering"),
                                          testing::Values("fp32", "fp64")));

TEST(HybridParallel, TheBaseModelHasTheGradientsOfOneRankUnderACriterion) {
  const Criterion criterion = [](const State& outputs, const Batch&) {
    const at::Tensor& hidden = outputs.at("last_hidden_state");
    return (hidden * at::linspace(-1, 1, hidden.size(2), hidden.options())).mean();
  };
  const auto gradients = [&](const World& world, const JobOptions& options) {
    Model model = tiny_gpt2(
        TinyGpt2{.architecture = "GPT2Model", .precision = options.precision, .width = 16, .heads = 4});
    BoosterOptions chosen;
    chosen.strategy = options.strategy;
    chosen.options = options.options;
    chosen.precision = options.precision;
    Job job = Booster(chosen, world).boost(model, optim::SGD(model.parameters(), {.lr = 1}), criterion);
    job.accumulate_gradients({{"input_ids", gpt2_batch(4, 2).at("input_ids")}});
    return published_gradients(job);
  };
  const Tensors expected = gradients(one_rank(), {.strategy = "none", .precision = "fp64"});
  for (const int ranks : {2, 4})
    on_ranks({ranks}, [&](World& world) {
      const std::string size = std::to_string(ranks);
      expect_near(gradients(world, hybrid("{\"tp_size\": " + size + "}", "fp64")), expected, kTensorFp64);
    });
}

class Precisions : public testing::TestWithParam<std::string> {};

TEST_P(Precisions, DataAxesOfEveryKindMultiply) {
  const Trial trial = trial_of("GPT2LMHeadModel", GetParam());
  for (const char* stage : {"0", "1", "2"})
    expect_gradients_of_one_rank(
        hybrid(std::string(R"({"tp_size": 2, "zero_stage": )") + stage + "}", GetParam()), {4}, trial);
}

TEST_P(Precisions, EveryStrategyTakesATensorAxis) {
  const Trial trial = trial_of("GPT2LMHeadModel", GetParam());
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    expect_gradients_of_one_rank(
        {.strategy = strategy, .options = R"({"tp_size": 2})", .precision = GetParam()}, {2, 4}, trial);
}

INSTANTIATE_TEST_SUITE_P(HybridParallel, Precisions, testing::Values("fp32", "fp64"));

TEST(HybridParallel, TrainsAsOneRankWithClippingAndRecomputation) {
  JobOptions options = hybrid(R"({"tp_size": 2, "zero_stage": 1})");
  options.max_grad_norm = 0.05;
  options.recompute = "all";
  options.accumulate = 2;
  expect_steps_of_one_rank(options, {2, 4}, trial_of("GPT2LMHeadModel", "fp32"));
  options.options = std::string(R"({"tp_size": 2, "zero_stage": 1)") + kSplitGather;
  expect_steps_of_one_rank(options, {2, 4}, trial_of("GPT2LMHeadModel", "fp32"));
}

}  // namespace

}  // namespace weft::test
