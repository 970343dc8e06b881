// Schedules of a strategy of its own, and storage that it frees between hooks. The strategy is the plugin
// "scripted" of these tests.
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

class Schedule : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_PATH", WEFT_TEST_PLUGINS, 1); }

  static JobOptions scripted(const std::string& schedule, bool release = false) {
    JobOptions options;
    options.strategy = "scripted";
    options.options =
        "{\"schedule\": \"" + schedule + "\", \"release\": " + (release ? "true" : "false") + "}";
    options.precision = "fp64";
    options.accumulate = 3;
    return options;
  }
  static Tensors reference(const Batch& batch, JobOptions options = {}) {
    options.precision = "fp64";
    Job job = boost(one_rank(), toy(options), options);
    return gradients_of_step(job, batch);
  }
};

TEST_F(Schedule, IsRefusedWhatAScheduleMayNotDo) {
  for (const auto& [mistake, text] : std::map<std::string, std::string>{{"micro-batch", "micro-batch 3 of 3"},
                                                                        {"unit", "this training"},
                                                                        {"backward first", "went forward"},
                                                                        {"no finish", "needs finish"},
                                                                        {"finish twice", "finished already"},
                                                                        {"backward twice", "went forward"}}) {
    JobOptions options = scripted("wrong");
    options.options = "{\"schedule\": \"wrong\", \"mistake\": \"" + mistake + "\"}";
    Job job = boost(one_rank(), toy(options), options);
    try {
      job.train_step(toy_batch(6, 1));
      ADD_FAILURE() << mistake;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << mistake << ": " << error.what();
      EXPECT_EQ(std::string(error.what()).find("scripted"), 0) << error.what();
    }
  }
}

TEST_F(Schedule, IsRefusedABackwardInEvaluation) {
  JobOptions options = scripted("wrong");
  Job job = boost(one_rank(), toy(options), options);
  EXPECT_ERROR(job.forward(toy_batch(6, 1)), WEFT_FAILED_PRECONDITION, "scripted", "goes forward");
}

TEST_F(Schedule, GivesTheSameGradientsIfItIsTheStrategysOwn) {
  const Batch batch = toy_batch(7, 2);
  const Tensors expected = reference(batch);
  for (const char* schedule : {"reverse", "all_forward", "two_stages"}) {
    for (const char* recompute : {"off", "all"}) {
      JobOptions options = scripted(schedule);
      options.recompute = recompute;
      Job job = boost(one_rank(), toy(options), options);
      SCOPED_TRACE(std::string(schedule) + " " + recompute);
      expect_near(gradients_of_step(job, batch), expected, kGradientFp64);
    }
  }
}

// Every micro-batch has random numbers of its own, in whatever order micro-batches run.
TEST_F(Schedule, DropsTheSameIfItIsTheStrategysOwn) {
  const Batch batch = toy_batch(6, 2);
  const auto gradients = [&](JobOptions options) {
    options.precision = "fp64";
    Job job = boost(one_rank(), toy(options, R"("dropout": 0.4)"), options);
    return gradients_of_step(job, batch);
  };
  const Tensors expected = gradients({.accumulate = 3});
  for (const char* schedule : {"reverse", "all_forward", "two_stages"}) {
    for (const char* recompute : {"off", "all"}) {
      JobOptions options = scripted(schedule);
      options.recompute = recompute;
      SCOPED_TRACE(std::string(schedule) + " " + recompute);
      expect_near(gradients(options), expected, kGradientFp64);
    }
  }
}

TEST_F(Schedule, SynchronisesWithTheMicroBatchThatComesLast) {
  const Batch batch = toy_batch(12, 3);
  const Tensors expected = reference(batch);
  on_ranks({2}, [&](World& world) {
    for (const char* schedule : {"reverse", "all_forward", "two_stages"}) {
      const JobOptions options = scripted(schedule);
      Job job = boost(world, toy(options), options);
      SCOPED_TRACE(schedule);
      expect_near(gradients_of_step(job, part_of(batch, world.rank() * 6, world.rank() * 6 + 6)), expected,
                  kGradientFp64);
    }
  });
}

JobOptions on_two_stages(int last, const std::string& mistake = "") {
  JobOptions options;
  options.strategy = "scripted";
  options.options = "{\"schedule\": \"two_ranks\", \"stages\": 2, \"last_stage\": " + std::to_string(last) +
                    ", \"mistake\": \"" + mistake + "\"}";
  options.precision = "fp64";
  options.accumulate = 2;
  return options;
}

TEST_F(Schedule, IsRefusedALossOnTwoStages) {
  on_ranks({2}, [&](World& world) {
    const JobOptions options = on_two_stages(0, "both finish");
    Job job = boost(world, toy(options), options);
    EXPECT_THROW(job.train_step(toy_batch(4, 1)), Error);
  });
}

// The rank that ran the last unit reports the loss to the others, wherever it is on the pipeline axis.
TEST_F(Schedule, HasItsLossOnAnyStage) {
  const Batch batch = toy_batch(8, 6);
  JobOptions plain;
  plain.precision = "fp64";
  plain.accumulate = 2;
  Job alone = boost(one_rank(), toy(plain), plain);
  const double evaluated = alone.evaluate(batch).loss();
  const double trained = alone.train_step(batch).loss;
  const Tensors expected = reference(batch);
  on_ranks({4}, [&](World& world) {
    for (const int last : {0, 1}) {
      SCOPED_TRACE(last);
      const JobOptions options = on_two_stages(last);
      Job job = boost(world, toy(options), options);
      const Mesh& mesh = job.model.shared().bindings().mesh();
      EXPECT_EQ(mesh.data_size(), 2);
      EXPECT_EQ(mesh.data_rank(), world.rank() / 2);
      const Batch own = part_of(batch, mesh.data_rank() * 4, mesh.data_rank() * 4 + 4);
      EXPECT_NEAR(job.evaluate(own).loss(), evaluated, 1e-12);
      const Tensors before = values_of(job);
      const StepResult step = job.train_step(own);
      EXPECT_NEAR(step.loss, trained, 1e-12);
      Tensors gradients = before;
      for (const auto& [name, value] : values_of(job)) gradients[name] = before.at(name) - value;
      expect_near(gradients, expected, kGradientFp64);
    }
  });
}

TEST_F(Schedule, CarriesEvaluationToo) {
  JobOptions plain;
  plain.precision = "fp64";
  Job reference = boost(one_rank(), toy(plain), plain);
  const State expected = reference.forward(toy_batch(4, 4));
  for (const char* schedule : {"reverse", "two_stages"}) {
    const JobOptions options = scripted(schedule, true);
    Job job = boost(one_rank(), toy(options), options);
    EXPECT_TRUE(job.forward(toy_batch(4, 4)).at("logits").equal(expected.at("logits"))) << schedule;
    EXPECT_EQ(job.evaluate(toy_batch(4, 4)).loss(), reference.evaluate(toy_batch(4, 4)).loss());
  }
}

TEST_F(Schedule, MayFreeParametersBetweenTheHooks) {
  const Batch batch = toy_batch(7, 5);
  const Tensors expected = reference(batch);
  for (const char* recompute : {"off", "all", "2"}) {
    JobOptions options = scripted("reverse", true);
    options.recompute = recompute;
    Job job = boost(one_rank(), toy(options), options);
    job.train_step(batch);
    // The layers' storage is freed; the published values were updated.
    for (const auto& item : job.model.module().named_parameters())
      EXPECT_EQ(item.value().storage().nbytes(), 0) << item.key();
    Job plain = boost(one_rank(), toy(options), JobOptions{.precision = "fp64"});
    plain.train_step(batch);
    EXPECT_NEAR(job.evaluate(batch).loss(), plain.evaluate(batch).loss(), 1e-10) << recompute;
  }
}

}  // namespace

}  // namespace weft::test
