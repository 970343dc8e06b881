// Parameters that are sharded over two axes, and gradients that are summed over fewer ranks than others. What
// four ranks compute, clip, save and load equals one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "booster/chosen_strategy.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/optimizer_state.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "train/training/blocks_model.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

struct Division {
  const char* name;
  const char* strategy;
  const char* options;
  uint32_t tensor_size;  // of the four ranks
  ExpertLayout experts;
};

constexpr Axes kData = 1u << axis::kData, kExpert = 1u << axis::kExperts;

constexpr const char* kHybrid = R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 2})";

// With experts on the data axis, the gradient of an expert is summed over the replicas only, or over no other
// rank.
constexpr Division kDivisions[] = {
    {"blocks of two axes", "scripted", R"({"rows": 2, "columns": 2})", 4, {kExpert}},
    {"experts and replicas", "scripted", R"({"experts": 2, "replicas": 2})", 1, {kExpert}},
    {"experts and columns", "scripted", R"({"experts": 2})", 2, {kExpert}},
    {"experts on the data axis", "scripted", R"({"replicas": 2})", 1, {kData}},
    // Experts are sharded over the data axis and their columns over the tensor axis.
    {"torch_ddp", "torch_ddp", "{}", 2, {kData, true}},
    {"zero stage 1", "low_level_zero", R"({"stage": 1})", 2, {kData, true}},
    {"zero stage 2", "low_level_zero", R"({"stage": 2})", 2, {kData, true}},
    {"torch_fsdp", "torch_fsdp", "{}", 2, {kData, true}},
    // Gradients of experts are summed over the replicas only.
    {"replicas of zero stage 1", "low_level_zero", R"({"stage": 1, "extra_dp_size": 2})", 1, {kData}},
    {"replicas of zero stage 2", "low_level_zero", R"({"stage": 2, "extra_dp_size": 2})", 1, {kData}},
    {"replicas of torch_fsdp", "torch_fsdp", kHybrid, 1, {kData}},
};

constexpr Division kAlone = {"one rank", "none", "{}", 1, {kData}};

Job boost_divided(World world, const Division& division) {
  BoosterOptions options;
  options.strategy = division.strategy;
  options.options = division.options;
  options.precision = "fp64";
  const ChosenStrategy chosen = choose_strategy(options);
  const std::vector<weft_kv> values(chosen.options.data(), chosen.options.data() + chosen.options.size());
  const auto model = std::make_shared<BlocksModel>();
  TrainingOptions training_options;
  training_options.precision = "fp64";
  training_options.host.plan_flags.tensor = division.tensor_size;
  const auto training = std::make_shared<Training>(
      std::move(world), model, chosen.api, chosen.name, values, training_options, nullptr,
      [&](const Mesh& mesh) { return blocks_plan(mesh, division.experts); });
  model->divide(training->bindings(), division.experts);
  Job job;
  job.model = Model::adopt(model);
  job.optimizer = optim::AdamW(job.model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
  job.optimizer.shared().attach(shared_bindings(training));
  job.model.shared().training = training;
  return job;
}

Training& training_of(const Job& job) {
  return *job.model.shared().training;
}

// Returns whole values or gradients, from the elements that each rank counts of its shards.
Tensors whole(const Job& job, at::Tensor Shard::*part) {
  Bindings& bindings = job.model.shared().bindings();
  Tensors tensors;
  for (const auto& param : bindings.params()) tensors[param->name] = at::zeros(param->shape, at::kDouble);
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
    if (!(shard.*part).defined()) continue;
    const at::Tensor& tensor = tensors.at(shard.param->name);
    for_each_box(shard.param->cut, shard.begin + shard.counted_begin, shard.counted_count,
                 (shard.*part).narrow(0, shard.counted_begin, shard.counted_count),
                 [&](const Box& box, const at::Tensor& values) {
                   view_of(tensor, Box::whole(shard.param->shape), box).copy_(values);
                 });
  }
  if (bindings.world().size() > 1)
    for (auto& [name, tensor] : tensors) bindings.world().communicator().all_reduce(tensor).wait();
  return tensors;
}

Batch own_samples(const Job& job, const Batch& batch) {
  const Mesh& mesh = job.model.shared().bindings().mesh();
  const int64_t samples = batch.at("x").size(0) / mesh.data_size();
  return part_of(batch, mesh.data_rank() * samples, (mesh.data_rank() + 1) * samples);
}

constexpr int64_t kSamples = 8;
constexpr double kMaxNorm = 0.5;  // well below that of the gradients

// The results of one rank: gradients, their norm, and the values after two clipped updates and a third.
struct Expected {
  Tensors gradients, after_two, after_three;
  double norm = 0, loss = 0;
};

Expected on_one_rank() {
  Expected expected;
  Job job = boost_divided(one_rank(), kAlone);
  training_of(job).run_step({blocks_batch(kSamples, 1)});
  expected.gradients = whole(job, &Shard::gradient);
  job.model.shared().bindings().zero_gradients();
  job.max_grad_norm = kMaxNorm;
  for (const int64_t seed : {1, 2}) {
    const StepResult step = job.train_step(blocks_batch(kSamples, seed));
    if (seed == 1) expected.norm = step.grad_norm.value();
    expected.loss = step.loss;
  }
  expected.after_two = whole(job, &Shard::value);
  job.train_step(blocks_batch(kSamples, 3));
  expected.after_three = whole(job, &Shard::value);
  return expected;
}

class DividedParameters : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    unsetenv("WEFT_PLUGIN_PATH");
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  }
};

TEST_F(DividedParameters, TrainAsOnOneRank) {
  const Expected expected = on_one_rank();
  ASSERT_GT(expected.norm, kMaxNorm);
  on_ranks({4}, [&](World& world) {
    for (const Division& division : kDivisions) {
      SCOPED_TRACE(division.name);
      Job job = boost_divided(world, division);
      training_of(job).run_step({own_samples(job, blocks_batch(kSamples, 1))});
      expect_near(whole(job, &Shard::gradient), expected.gradients, kGradientFp64);
      job.model.shared().bindings().zero_gradients();
      job.max_grad_norm = kMaxNorm;
      StepResult step = job.train_step(own_samples(job, blocks_batch(kSamples, 1)));
      EXPECT_NEAR(step.grad_norm.value(), expected.norm, 1e-10 * expected.norm);
      step = job.train_step(own_samples(job, blocks_batch(kSamples, 2)));
      EXPECT_NEAR(step.loss, expected.loss, 1e-10 * expected.loss);
      expect_near(whole(job, &Shard::value), expected.after_two, 1e-9);
    }
  });
}

// Each division saves, and the next one loads.
TEST_F(DividedParameters, AreSavedForAnyOtherDivision) {
  const Expected expected = on_one_rank();
  const TemporaryFolder folder;
  on_ranks({4}, [&](World& world) {
    BoosterOptions options;
    options.strategy = "scripted";
    options.precision = "fp64";
    Booster booster(options, world);
    for (size_t d = 0; d < std::size(kDivisions); ++d) {
      const Division& other = kDivisions[(d + 1) % std::size(kDivisions)];
      SCOPED_TRACE(std::string(kDivisions[d].name) + " to " + other.name);
      const std::string path = folder.path() + "/" + std::to_string(d);
      Job job = boost_divided(world, kDivisions[d]);
      job.max_grad_norm = kMaxNorm;
      for (const int64_t seed : {1, 2}) job.train_step(own_samples(job, blocks_batch(kSamples, seed)));
      booster.save_training(job, path);
      Job next = boost_divided(world, other);
      next.max_grad_norm = kMaxNorm;
      booster.load_training(next, path);
      expect_near(whole(next, &Shard::value), expected.after_two, 1e-9);
      next.train_step(own_samples(next, blocks_batch(kSamples, 3)));
      expect_near(whole(next, &Shard::value), expected.after_three, 1e-9);
    }
  });
  // One rank loads, too.
  Booster booster({.strategy = "none", .precision = "fp64"}, one_rank());
  Job alone = boost_divided(one_rank(), kAlone);
  alone.max_grad_norm = kMaxNorm;
  booster.load_training(alone, folder.path() + "/0");
  alone.train_step(blocks_batch(kSamples, 3));
  expect_near(whole(alone, &Shard::value), expected.after_three, 1e-9);
}

TEST_F(DividedParameters, AreRefusedByGeminiWhichSumsAllGradientsAlike) {
  on_ranks({4}, [&](World& world) {
    EXPECT_ERROR(boost_divided(world, {"gemini", "gemini", "{}", 1, {kData}}), WEFT_UNIMPLEMENTED, "gemini",
                 "gradient of experts.0.weight", "torch_fsdp");
  });
}

}  // namespace

}  // namespace weft::test
