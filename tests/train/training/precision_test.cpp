// Half precision: working copies and master weights, loss scaling, autocast, and gradient norms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "opening/model_state.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Shard> published(const Job& job) {
  return job.model.shared().bindings().publish(WEFT_REASON_CHECK);
}

Tensors masters_of(const Job& job) {
  Tensors values;
  for (const Shard& shard : published(job))
    values[shard.param->name] = shard.value.to(at::kDouble, false, true);
  return values;
}

Tensors updates_of(Job& job, int steps) {
  Tensors before = masters_of(job);
  for (int step = 0; step < steps; ++step) job.train_step(toy_batch(4, step));
  Tensors updates = masters_of(job);
  for (auto& [name, value] : updates) value -= before.at(name);
  return updates;
}

// Compares direction and length: the projection on the reference, and the 2-norm of the rest.
void expect_close(const Tensors& actual, const Tensors& expected, double projection, double rest) {
  for (const auto& [name, reference] : expected) {
    const at::Tensor value = actual.at(name).flatten().to(at::kDouble),
                     wanted = reference.flatten().to(at::kDouble);
    const double square = wanted.dot(wanted).item<double>();
    if (square == 0) continue;
    EXPECT_NEAR(value.dot(wanted).item<double>() / square, 1, projection) << name;
    EXPECT_LT(((value - wanted).norm() / wanted.norm()).item<double>(), rest) << name;
  }
}

JobOptions with_precision(const std::string& precision) {
  JobOptions options;
  options.precision = precision;
  return options;
}
JobOptions mixed(const std::string& mixed_precision) {
  JobOptions options;
  options.mixed_precision = mixed_precision;
  return options;
}
// The gradients of this model are of the order of 1, so nothing overflows with a scale of 256.
constexpr double kScale = 256;
JobOptions fp16() {
  JobOptions options = mixed(R"({"name": "fp16_naive", "initial_scale": 256})");
  options.precision = "fp16";
  return options;
}

TEST(HalfPrecision, LayersComputeInItAndMastersAreInSingle) {
  for (const char* precision : {"bf16", "fp16"}) {
    const JobOptions options = with_precision(precision);
    Job job = boost(one_rank(), toy(options), options);
    for (int step = 0; step < 3; ++step) job.train_step(toy_batch(4, step));
    for (const Shard& shard : published(job)) {
      EXPECT_EQ(shard.value.scalar_type(), at::kFloat);
      EXPECT_EQ(shard.param->tensor.scalar_type(), precision_dtype(precision));
      EXPECT_TRUE(shard.param->tensor.detach().view(-1).equal(shard.value.to(precision_dtype(precision))))
          << shard.param->name;
    }
  }
}

TEST(HalfPrecision, TheMasterKeepsUpdatesThatTheWorkingCopyCannotShow) {
  const JobOptions options = with_precision("bf16");
  Model model = toy(options);
  Job job = boost(one_rank(), model, options, optim::SGD(model.parameters(), {.lr = 1e-5}));
  const Tensors updates = updates_of(job, 1);
  for (const auto& [name, update] : updates) EXPECT_GT(update.abs().max().item<double>(), 0) << name;
}

TEST(HalfPrecision, GradientsAreThoseOfSinglePrecisionUpToRounding) {
  Job exact = boost(one_rank(), toy());
  const Tensors expected = updates_of(exact, 1);
  for (const auto& [precision, projection, rest] :
       {std::tuple{"bf16", 0.03, 0.06}, std::tuple{"fp16", 0.004, 0.008}}) {
    const JobOptions options = precision == std::string("fp16") ? fp16() : with_precision(precision);
    Job job = boost(one_rank(), toy(options), options);
    expect_close(updates_of(job, 1), expected, projection, rest);
  }
}

TEST(HalfPrecision, GradientsOfHalfPrecisionCarryTheScaleOfTheLoss) {
  const JobOptions options = fp16();
  Job job = boost(one_rank(), toy(options), options), exact = boost(one_rank(), toy());
  job.accumulate_gradients(toy_batch(4, 0));
  exact.accumulate_gradients(toy_batch(4, 0));
  const std::vector<Shard> scaled = published(job), plain = published(exact);
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!plain[i].gradient.defined()) continue;
    const double ratio =
        (scaled[i].gradient.to(at::kDouble).norm() / plain[i].gradient.norm()).item<double>();
    EXPECT_NEAR(ratio / kScale, 1, 0.01) << plain[i].param->name;
  }
}

TEST(HalfPrecision, RanksTogetherHaveTheUpdatesOfOne) {
  for (const JobOptions& options : {with_precision("bf16"), fp16()}) {
    Job alone = boost(one_rank(), toy(options), options);
    const Tensors before = masters_of(alone);
    for (int step = 0; step < 2; ++step) alone.train_step(toy_batch(4, step));
    Tensors expected = masters_of(alone);
    for (auto& [name, value] : expected) value -= before.at(name);
    on_ranks({2}, [&](World& world) {
      JobOptions split = options;
      split.strategy = "torch_ddp";
      split.options = R"({"find_unused_parameters": true})";
      Job job = boost(world, toy(split), split);
      for (int step = 0; step < 2; ++step)
        job.train_step(part_of(toy_batch(4, step), 2 * world.rank(), 2 * world.rank() + 2));
      Tensors updates = masters_of(job);
      for (auto& [name, value] : updates) value -= before.at(name);
      expect_close(updates, expected, 0.01, 0.03);
    });
  }
}

TEST(LossScale, AnOverflowSkipsTheStepAndTrainingRecovers) {
  JobOptions options = mixed("fp16_naive");
  options.precision = "fp16";
  Job job = boost(one_rank(), toy(options), options);
  const Tensors before = masters_of(job);
  StepResult result = job.train_step(toy_batch(4, 0));
  EXPECT_FALSE(result.updated);
  EXPECT_EQ(result.loss_scale, 4294967296.);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(job.optimizer.steps(), 0);
  expect_equal(masters_of(job), before);
  // With a hysteresis of 2, the first overflow does not change the scale.
  EXPECT_EQ(job.train_step(toy_batch(4, 0)).loss_scale, 4294967296.);
  EXPECT_EQ(job.train_step(toy_batch(4, 0)).loss_scale, 2147483648.);
  for (int step = 0; step < 40 && !result.updated; ++step) result = job.train_step(toy_batch(4, 0));
  EXPECT_TRUE(result.updated);
  EXPECT_EQ(job.optimizer.steps(), 1);
}

WEFT_RANKS_TEST(LossScale, AnOverflowOnOneRankSkipsTheStepOnAll, 2) {
  JobOptions options = mixed(R"({"name": "fp16", "init_scale": 1024, "growth_interval": 2})");
  options.strategy = "torch_ddp";
  options.options = R"({"find_unused_parameters": true})";
  Job job = boost(world, toy(), options);
  int64_t step = 0;
  job.criterion = [&](const State& outputs, const Batch&) {
    const at::Tensor mean = outputs.at("logits").to(at::kFloat).mean();
    return step == 1 && world.rank() == 1 ? mean * 3e38 * 3e38 : mean;
  };
  const bool updated[] = {true, false, true, true, true};
  const double scales[] = {1024, 1024, 512, 512, 1024};
  for (; step < 5; ++step) {
    const Tensors before = values_of(job);
    const StepResult result = job.train_step(toy_batch(2, 2 * step + world.rank()));
    EXPECT_EQ(result.updated, updated[step]) << "step " << step;
    EXPECT_EQ(result.loss_scale, scales[step]) << "step " << step;
    if (!updated[step]) expect_equal(values_of(job), before);
  }
  EXPECT_EQ(job.optimizer.steps(), 4);
}

TEST(LossScale, ClippingSeesGradientsWithoutIt) {
  JobOptions options = fp16();
  options.max_grad_norm = 0.05;
  Job scaled = boost(one_rank(), toy(options), options);
  JobOptions single = options;
  single.precision = "fp32";
  single.mixed_precision = "";
  Job exact = boost(one_rank(), toy(), single);
  const StepResult expected = exact.train_step(toy_batch(4, 0)), result = scaled.train_step(toy_batch(4, 0));
  ASSERT_TRUE(result.grad_norm && expected.grad_norm);
  EXPECT_GT(*expected.grad_norm, 0.05);
  EXPECT_NEAR(*result.grad_norm / *expected.grad_norm, 1, 0.005);
  expect_close(updates_of(scaled, 1), updates_of(exact, 1), 0.02, 0.05);
}

TEST(LossScale, ALoopOfTheCallersOwnClipsTheSame) {
  const JobOptions options = fp16();
  Job job = boost(one_rank(), toy(options), options), exact = boost(one_rank(), toy());
  for (Job* each : {&job, &exact}) {
    each->accumulate_gradients(toy_batch(4, 0));
    EXPECT_GT(each->optimizer.clip_grad_by_norm(0.05), 0.05);
  }
  const Tensors before = masters_of(job), exact_before = masters_of(exact);
  for (Job* each : {&job, &exact}) EXPECT_TRUE(each->optimizer.step());
  Tensors updates = masters_of(job), exact_updates = masters_of(exact);
  for (auto& [name, value] : updates) value -= before.at(name);
  for (auto& [name, value] : exact_updates) value -= exact_before.at(name);
  expect_close(updates, exact_updates, 0.005, 0.01);
}

TEST(Autocast, ComputesInHalfPrecisionOnParametersInSingle) {
  Job exact = boost(one_rank(), toy());
  const double loss = exact.train_step(toy_batch(4, 0)).loss;
  for (const char* name : {"bf16", "fp16"}) {
    Job job = boost(one_rank(), toy(), mixed(name));
    const StepResult result = job.train_step(toy_batch(4, 0));
    EXPECT_NE(result.loss, loss) << name;
    EXPECT_NEAR(result.loss / loss, 1, 5e-3) << name;
    EXPECT_EQ(result.loss_scale.has_value(), name == std::string("fp16"));
    for (const Shard& shard : published(job)) EXPECT_EQ(shard.param->tensor.scalar_type(), at::kFloat);
  }
}

TEST(Autocast, RecomputationGivesTheSameGradients) {
  JobOptions options = mixed("bf16");
  Job plain = boost(one_rank(), toy(), options);
  options.recompute = "all";
  Job recomputed = boost(one_rank(), toy(), options);
  expect_equal(gradients_of_step(recomputed, toy_batch(4, 0)), gradients_of_step(plain, toy_batch(4, 0)));
}

TEST(MixedPrecision, RefusesWhatItCannotDoWithTheReason) {
  const auto boosted = [](const std::string& name) { boost(one_rank(), toy(), mixed(name)); };
  EXPECT_ERROR(boosted("fp8"), WEFT_UNIMPLEMENTED, "fp8", "bf16");
  EXPECT_ERROR(boosted("fp16_apex"), WEFT_UNIMPLEMENTED, "Apex", "fp16_naive");
  EXPECT_ERROR(boosted("bf61"), WEFT_INVALID_ARGUMENT, "\"bf61\"", "bf16");
  EXPECT_ERROR(boosted(R"({"name": "fp16", "initial_scale": 2})"), WEFT_INVALID_ARGUMENT, "initial_scale",
               "init_scale");
  EXPECT_ERROR(boosted("[]"), WEFT_INVALID_ARGUMENT, "mixed_precision");
  JobOptions both = mixed("bf16");
  both.precision = "fp64";
  EXPECT_ERROR(boost(one_rank(), toy(both), both), WEFT_INVALID_ARGUMENT, "fp64", "mixed_precision");
}

WEFT_RANKS_TEST(GradientNorm, IsThatOfTheWholeGradientForAnyOrder, 1, 2) {
  JobOptions options;
  options.strategy = "torch_ddp";
  options.options = R"({"find_unused_parameters": true})";
  Job job = boost(world, toy(), options);
  job.accumulate_gradients(toy_batch(2, world.rank()));
  EXPECT_ERROR(job.optimizer.clip_grad_by_norm(1, 0), WEFT_INVALID_ARGUMENT, "norm_type is 0");
  std::vector<at::Tensor> parts;
  for (const auto& [name, gradient] : grad_fields_of(job))
    if (gradient.defined() && name != "head.weight") parts.push_back(gradient.view(-1).to(at::kDouble));
  const at::Tensor whole = at::cat(parts);
  for (const double p : {1., 2., 3., kInfinity}) {
    const double expected = whole.norm(p).item<double>();
    EXPECT_NEAR(job.optimizer.clip_grad_by_norm(1e9, p) / expected, 1, 1e-12) << p;
  }
  const double largest = whole.abs().max().item<double>();
  job.optimizer.clip_grad_by_norm(largest / 2, kInfinity);
  EXPECT_NEAR(job.optimizer.clip_grad_by_norm(1e9, kInfinity) / largest, 0.5, 1e-5);
}

}  // namespace
}  // namespace weft::test
