// Half precision on tensor and data axes together: partial sums over the tensor axis are rounded, the loss
// scale is one for all ranks, and an overflow on one of them stops the step on all.
#include <cmath>

#include "plugins/support/parity.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

JobOptions hybrid(const std::string& options, const std::string& precision) {
  return {.strategy = "hybrid_parallel", .options = options, .precision = precision};
}

const Trial kWide = {.model = [](const JobOptions& options) {
  return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 96, .heads = 4});
}};

TEST(HalfPrecision, HasTheGradientsOfOneRankUpToRounding) {
  constexpr double kRest = 1.0 / 128;  // twice what is found
  expect_half_gradients_of_one_rank(hybrid(R"({"tp_size": 2})", "fp16"), kRest, {2}, kWide);
  for (const char* stage : {"0", "1", "2"})
    expect_half_gradients_of_one_rank(
        hybrid(std::string(R"({"tp_size": 2, "zero_stage": )") + stage + "}", "fp16"), kRest, {4}, kWide);
  expect_half_gradients_of_one_rank(
      hybrid(
          R"({"tp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "split_gather"})",
          "fp16"),
      kRest, {2}, kWide);
}

// 20 steps of AdamW: as near to fp32 on one rank as half precision on one rank is, up to a factor of 2.
TEST(HalfPrecision, TrainsAsNearToFp32AsOneRankInHalfPrecision) {
  const auto losses = [](const World& world, const JobOptions& options) {
    const Model model = kWide.model(options);
    Job job = boost(world, model, options, optim::AdamW(model.parameters(), {.lr = 1e-3}));
    std::vector<double> found;
    for (int64_t step = 0; step < 20; ++step)
      found.push_back(job.train_step(own_part(gpt2_batch(8, step % 4), job)).loss);
    return found;
  };
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
  };
  const std::vector<double> expected = losses(one_rank(), {});
  const double alone = distance(losses(one_rank(), {.precision = "fp16"}), expected);
  EXPECT_LT(expected.back(), 0.9 * expected.front());
  on_ranks({4}, [&](World& world) {
    for (const char* stage : {"0", "1"}) {
      const std::string options = std::string(R"({"tp_size": 2, "zero_stage": )") + stage + "}";
      EXPECT_LT(distance(losses(world, hybrid(options, "fp16")), expected), 2 * alone + 1e-4) << stage;
    }
  });
}

// Ranks 0 and 1 share samples; rank 3 alone has the overflow.
TEST(HalfPrecision, AnOverflowOnOneRankStopsTheStepOnAll) {
  on_ranks({4}, [](World& world) {
    for (const char* stage : {"0", "1", "2"}) {
      const JobOptions options = hybrid(
          std::string(R"({"tp_size": 2, "parallel_output": false, "initial_scale": 1024, "hysteresis": 1,
                          "growth_interval": 2, "zero_stage": )") +
              stage + "}",
          "fp16");
      Job job = boost(world, kWide.model(options), options);
      int step = 0;
      job.criterion = [&](const State& outputs, const Batch&) {
        const at::Tensor mean = outputs.at("logits").to(at::kFloat).mean();
        return step == 1 && world.rank() == 3 ? mean * 3e38 * 3e38 : mean;
      };
      const auto train = [&] { return job.train_step(own_part(gpt2_batch(4, 1), job)); };
      EXPECT_TRUE(train().updated) << stage;
      step = 1;
      const Tensors before = published_values(job);
      EXPECT_FALSE(train().updated) << stage;
      expect_equal(published_values(job), before);
      step = 2;
      const StepResult result = train();
      EXPECT_TRUE(result.updated) << stage;
      EXPECT_EQ(result.loss_scale, 512.) << stage;
      EXPECT_FALSE(at::equal(published_values(job).begin()->second, before.begin()->second)) << stage;
    }
  });
}

}  // namespace

}  // namespace weft::test
