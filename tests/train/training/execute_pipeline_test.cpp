// Booster::execute_pipeline, and evaluation through pipeline stages, against one rank.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

constexpr double kNear = 1e-12;

Booster booster_of(const World& world) {
  return Booster(BoosterOptions{.strategy = "torch_ddp"}, world);
}

JobOptions staged(const std::string& more = R"("num_microbatches": 3)") {
  return {.strategy = "torch_ddp", .options = R"({"pp_size": 2, )" + more + "}", .precision = "fp64"};
}

Model toy_of(const JobOptions& options, const std::string& keys = "") {
  return toy(options, R"("gated": false)" + keys);
}

bool is_last_stage(const Job& job) {
  const Mesh::Place place = job.model.shared().bindings().mesh().place(Mesh::stages());
  return place.rank + 1 == place.size;
}

at::Tensor mean_of_squares(const State& outputs, const Batch&) {
  return outputs.at("logits").square().mean();
}

// What one rank without a strategy makes of a batch.
struct Expected {
  double loss;
  at::Tensor logits;
  Tensors gradients;
};

Expected expected_of(const Batch& batch, const Criterion& criterion, const std::string& keys = "") {
  const JobOptions options = {.precision = "fp64"};
  Job job = boost(one_rank(), toy_of(options, keys), options);
  job.criterion = criterion;
  Expected expected;
  expected.logits = job.forward(batch).at("logits");
  expected.loss = job.accumulate_gradients(batch);
  expected.gradients = published_gradients(job);
  return expected;
}

// 8 samples are 3, 3 and 2 or 2, 1 and 1 in a micro-batch; of 2, a rank has micro-batches without any.
TEST(ExecutePipeline, HasTheLossOutputsAndGradientsOfOneRank) {
  struct Trained {
    Batch batch;
    Criterion criterion;
    Expected expected;
  };
  std::vector<Trained> all;
  for (const int64_t samples : {8, 2})
    for (const Criterion& criterion : {Criterion(), Criterion(mean_of_squares)}) {
      const Batch batch = toy_batch(samples, samples, false);
      all.push_back({batch, criterion, expected_of(batch, criterion)});
    }
  on_ranks({2, 4}, [&](World& world) {
    Booster booster = booster_of(world);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(i);
      const auto& [batch, criterion, expected] = all[i];
      Job job = boost(world, toy_of(staged()), staged());
      const Batch own = own_part(batch, job);
      const PipelineResult result =
          booster.execute_pipeline(own, job.model, criterion, job.optimizer, true, true);
      ASSERT_TRUE(result.loss.has_value());
      EXPECT_NEAR(*result.loss, expected.loss, kNear);
      expect_near(published_gradients(job), expected.gradients, kGradientFp64);
      EXPECT_EQ(result.outputs.empty(), !is_last_stage(job));
      if (is_last_stage(job)) {
        const Mesh& mesh = job.model.shared().bindings().mesh();
        const int64_t begin = batch.samples() * mesh.data_rank() / mesh.data_size();
        EXPECT_FALSE(result.outputs.at("logits").requires_grad());
        EXPECT_TRUE(
            is_near(result.outputs.at("logits"), expected.logits.narrow(0, begin, own.samples()), kNear));
      }
      const PipelineResult silent =
          booster.execute_pipeline(own, job.model, criterion, job.optimizer, false, false);
      EXPECT_FALSE(silent.loss.has_value());
      EXPECT_TRUE(silent.outputs.empty());
      Tensors twice = expected.gradients;
      for (auto& [name, gradient] : twice) gradient = gradient * 2;
      expect_near(published_gradients(job), twice, kGradientFp64);
      EXPECT_TRUE(job.optimizer.step());
    }
    world.communicator().barrier();
  });
}

// The same loop trains without stages, and without any strategy.
TEST(ExecutePipeline, TrainsAsTrainStepUnderEveryStrategy) {
  const auto expect_losses_of_train_step = [](const World& world, const JobOptions& options) {
    Job job = boost(world, toy_of(options), options, "adamw"),
        other = boost(world, toy_of(options), options, "adamw");
    Booster booster = booster_of(world);
    for (int64_t step = 0; step < 3; ++step) {
      const Batch batch = own_part(toy_batch(8, step, false), job);
      const PipelineResult result = booster.execute_pipeline(batch, job.model, {}, job.optimizer);
      EXPECT_TRUE(job.optimizer.step());
      job.optimizer.zero_grad();
      EXPECT_NEAR(result.loss.value(), other.train_step(batch).loss, kNear) << options.options;
    }
  };
  expect_losses_of_train_step(one_rank(), {.precision = "fp64"});
  on_ranks({2}, [&](World& world) {
    expect_losses_of_train_step(world, staged());
    expect_losses_of_train_step(world, {.strategy = "low_level_zero", .precision = "fp64"});
    expect_losses_of_train_step(world, {.strategy = "hybrid_parallel",
                                        .options = R"({"pp_size": 2, "zero_stage": 1})",
                                        .precision = "fp64"});
    world.communicator().barrier();
  });
}

TEST(ExecutePipeline, KeepsGradientsLocalUnderNoSync) {
  const Batch first = toy_batch(8, 1, false), second = toy_batch(8, 2, false);
  Tensors sums = expected_of(first, {}).gradients;
  for (const auto& [name, gradient] : expected_of(second, {}).gradients) sums[name] = sums[name] + gradient;
  on_ranks({4}, [&](World& world) {
    Booster booster = booster_of(world);
    Job job = boost(world, toy_of(staged()), staged());
    {
      const Booster::NoSync local = booster.no_sync(job.model);
      booster.execute_pipeline(own_part(first, job), job.model, {}, job.optimizer);
    }
    booster.execute_pipeline(own_part(second, job), job.model, {}, job.optimizer);
    expect_near(published_gradients(job), sums, kGradientFp64);
    world.communicator().barrier();
  });
}

// Without the sum over the stages the gradient of the tied embeddings would be missing.
TEST(ExecutePipeline, RefusesAnUpdateAfterABackwardUnderNoSync) {
  const Batch batch = toy_batch(8, 1, false);
  Tensors sums = expected_of(batch, {}).gradients;
  for (auto& [name, gradient] : sums) gradient = gradient * 2;
  on_ranks({2}, [&](World& world) {
    Booster booster = booster_of(world);
    Job job = boost(world, toy_of(staged()), staged());
    const Tensors before = published_values(job);
    {
      const Booster::NoSync local = booster.no_sync(job.model);
      booster.execute_pipeline(batch, job.model, {}, job.optimizer);
    }
    EXPECT_ERROR(job.optimizer.step(), WEFT_FAILED_PRECONDITION, "no_sync", "pipeline stages",
                 "the gradients");
    expect_equal(published_values(job), before);
    booster.execute_pipeline(batch, job.model, {}, job.optimizer);
    expect_near(published_gradients(job), sums, kGradientFp64);
    EXPECT_TRUE(job.optimizer.step());
    job.optimizer.zero_grad();
    // What was forgotten does not matter.
    {
      const Booster::NoSync local = booster.no_sync(job.model);
      booster.execute_pipeline(batch, job.model, {}, job.optimizer);
    }
    job.optimizer.zero_grad();
    EXPECT_TRUE(job.optimizer.step());
    world.communicator().barrier();
  });
}

WEFT_RANKS_TEST(ExecutePipeline, RunsForwardAloneWithoutGradients, 2) {
  Booster booster = booster_of(world);
  Job job = boost(world, toy_of(staged(), R"(, "dropout": 0.3)"), staged());
  const Batch batch = toy_batch(7, 1, false);
  for (const Criterion& criterion : {Criterion(), Criterion(mean_of_squares)}) {
    job.criterion = criterion;
    const double loss = job.evaluate(batch).loss();
    const State outputs = job.forward(batch);
    const auto expect_evaluation = [&](const PipelineResult& result) {
      EXPECT_EQ(result.loss.value(), loss);
      EXPECT_EQ(result.outputs.empty(), !is_last_stage(job));
      if (is_last_stage(job)) {
        EXPECT_TRUE(result.outputs.at("logits").equal(outputs.at("logits")));
      }
    };
    expect_evaluation(booster.execute_pipeline(batch, job.model, criterion, {}, true, true));
    const at::NoGradGuard no_grad;
    expect_evaluation(booster.execute_pipeline(batch, job.model, criterion, job.optimizer, true, true));
  }
  for (const auto& [name, gradient] : published_gradients(job))
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0) << name;
  EXPECT_TRUE(job.model.module().is_training());
}

WEFT_RANKS_TEST(ExecutePipeline, RefusesWhatItCannotRun, 2) {
  Booster booster = booster_of(world);
  const Batch batch = toy_batch(4, 1, false);
  Job job = boost(world, toy_of(staged()), staged()), other = boost(world, toy_of(staged()), staged());
  EXPECT_ERROR(booster.execute_pipeline(batch, toy_of(staged())), WEFT_FAILED_PRECONDITION, "not boosted");
  EXPECT_ERROR(booster.execute_pipeline(batch, job.model, {}, other.optimizer), WEFT_INVALID_ARGUMENT,
               "another model", "ToyModel");
  Batch unlabelled = batch;
  unlabelled.erase("labels");
  EXPECT_ERROR(booster.execute_pipeline(unlabelled, job.model), WEFT_INVALID_ARGUMENT, "no labels",
               "return_loss");
  EXPECT_ERROR(booster.execute_pipeline(unlabelled, job.model, {}, job.optimizer), WEFT_INVALID_ARGUMENT,
               "no labels", "criterion");
  EXPECT_EQ(booster.execute_pipeline(unlabelled, job.model, {}, {}, false, true).outputs.empty(),
            !is_last_stage(job));
  EXPECT_NO_THROW(booster.execute_pipeline(batch, job.model, {}, job.optimizer));  // no harm was done
}

WEFT_RANKS_TEST(ExecutePipeline, RefusesACriterionOfAPartOfTheLogits, 4) {
  Booster booster = booster_of(world);
  const TinyGpt2 divisible = {.precision = "fp64", .heads = 4};
  JobOptions options = staged(R"("tp_size": 2)");
  Job job = boost(world, tiny_gpt2(divisible), options);
  const Batch batch = gpt2_batch(4, 1);
  EXPECT_ERROR(booster.execute_pipeline(batch, job.model, mean_of_squares, job.optimizer),
               WEFT_INVALID_ARGUMENT, "tp_size 2", "parallel_output");
  options = staged(R"("tp_size": 2, "parallel_output": false)");
  Job whole = boost(world, tiny_gpt2(divisible), options);
  EXPECT_GT(booster.execute_pipeline(batch, whole.model, mean_of_squares, whole.optimizer).loss.value(), 0);
}

// Evaluation runs as many micro-batches as training does; metrics, auxiliary losses and outputs are those of
// the whole batch.
TEST(PipelineStages, EvaluateMicroBatchesAsOneRank) {
  const std::string balance = R"(, "balance": 0.1)";
  const Batch batch = toy_batch(7, 1, false);
  const JobOptions plain = {.precision = "fp64"};
  Job alone = boost(one_rank(), toy_of(plain, balance), plain);
  const Evaluation expected = alone.evaluate(batch);
  const at::Tensor logits = alone.forward(batch).at("logits");
  on_ranks({2}, [&](World& world) {
    for (const char* more : {R"("num_microbatches": 1)", R"("num_microbatches": 3)",
                             R"("num_microbatches": 9)", R"("microbatch_size": 2)"}) {
      SCOPED_TRACE(more);
      Job job = boost(world, toy_of(staged(more), balance), staged(more), "adamw");
      const Evaluation found = job.evaluate(batch);
      EXPECT_NEAR(found.loss(), expected.loss(), kNear);
      EXPECT_EQ(found.labels(), expected.labels());
      ASSERT_EQ(found.terms.size(), expected.terms.size());
      if (is_last_stage(job)) {
        EXPECT_TRUE(is_near(job.forward(batch).at("logits"), logits, kNear));
      } else {
        EXPECT_TRUE(job.forward(batch).empty());
      }
      // Between steps it changes nothing.
      const double first = job.train_step(batch).loss;
      EXPECT_NEAR(first, expected.loss(), kNear);
      const double evaluated = job.evaluate(batch).loss();
      EXPECT_NEAR(job.train_step(batch).loss, evaluated, kNear);
    }
    world.communicator().barrier();
  });
}

}  // namespace

}  // namespace weft::test
