// Weights that stay right: updates that are not finite are left out, and averages follow their formula.
#include <gmock/gmock.h>

#include <filesystem>

#include "api/trainer.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class NonFinite : public TrainerTest {
 protected:
  struct Run {
    std::string weights, stopped;
    int64_t steps = 0;
  };
  // Trains with a wrong value in the second step, of which `spoil` is told before and after.
  Run run(const World& world, NonFiniteGuard::Then then, const std::function<void(Job&, bool begins)>& spoil,
          const Criterion& criterion = {}) const {
    const auto guard = std::make_shared<NonFiniteGuard>(then, in("kept"));
    const auto notes = std::make_shared<Notes>();
    int batches = 0;
    notes->then["before_step"] = [&](Trainer& t) {
      if (++batches == 2) spoil(t.job(), true);
    };
    notes->then["end_step"] = [&](Trainer& t) {
      if (batches == 2) spoil(t.job(), false);
    };
    Job job = make_job(world, options_);
    job.criterion = criterion;
    Trainer training(Booster({}, world), job, {.steps = 3, .hooks = {guard, notes}});
    training.fit();
    training.save(in("out"));
    return {read_bytes(in("out/model.safetensors")), guard->stopped(), training.job().optimizer.steps()};
  }
};

TEST_F(NonFinite, AnActivationIsNamedAndTheStepLeftOut) {
  on_ranks({1, 2}, [&](World& world) {
    at::Tensor before;
    const auto spoil = [&](Job& job, bool begins) {
      const at::NoGradGuard no_grad;
      at::Tensor weight = job.model.module().named_parameters(true)["transformer.h.1.ln_2.weight"];
      if (begins) before = weight.clone();
      begins ? weight.fill_(std::numeric_limits<float>::infinity()) : weight.copy_(before);
    };
    const auto keep = [](Job&, bool) {};
    const auto left_out = [&] {  // trains on the batches 1, 3 and 4, too
      const auto notes = std::make_shared<Notes>();
      int batches = 0;
      notes->then["before_step"] = [&](Trainer& t) {
        if (++batches == 2) t.skip();
      };
      Trainer training = trainer(world, {.steps = 3, .hooks = {notes}});
      training.fit();
      training.save(in("left_out"));
      return read_bytes(in("left_out/model.safetensors"));
    }();
    const Run skipped = run(world, NonFiniteGuard::Then::kSkip, spoil);
    EXPECT_EQ(skipped.steps, 3);
    EXPECT_EQ(skipped.stopped, "");
    EXPECT_EQ(skipped.weights, left_out);
    EXPECT_NE(run(world, NonFiniteGuard::Then::kSkip, keep).weights, left_out);
    const Run stopped = run(world, NonFiniteGuard::Then::kStop, spoil);
    EXPECT_EQ(stopped.steps, 1);
    EXPECT_THAT(stopped.stopped, testing::HasSubstr("of unit "));
    const std::string path = in("kept/step-2-rank-" + std::to_string(world.rank()) + ".safetensors");
    EXPECT_THAT(stopped.stopped, testing::HasSubstr(path));
    EXPECT_EQ(read_safetensors(path).at("input_ids").shape[0], 8 / world.size());
  });
}

TEST_F(NonFinite, AGradientIsNamedWhereTheForwardIsFinite) {
  on_ranks({1}, [&](World& world) {
    bool spoiled = false;
    const Criterion criterion = [&](const State& outputs, const Batch&) {
      const at::Tensor mean = outputs.at("logits").mean();
      return spoiled ? mean * std::numeric_limits<double>::quiet_NaN() : mean;
    };
    const Run stopped = run(
        world, NonFiniteGuard::Then::kStop, [&](Job&, bool begins) { spoiled = begins; }, criterion);
    EXPECT_EQ(stopped.steps, 1);
    EXPECT_THAT(stopped.stopped, testing::HasSubstr("gradient of"));
    EXPECT_THAT(stopped.stopped, testing::HasSubstr("samples"));
  });
}

TEST_F(NonFinite, LookingForItChangesNoMaskOfLaterSteps) {
  TinyModel model;
  model.dropout = 0.3;
  options_.model = folder_.file("dropout.json", config_json(model));
  for (const int64_t accumulate : {1, 2}) {
    options_.accumulate = accumulate;
    on_ranks({1, 2}, [&](World& world) {
      const auto losses = [&](bool looks) {
        Job job = make_job(world, options_);
        job.guards_updates = true;
        std::vector<double> found;
        Batch batch;
        while (found.size() < 4 && job.data.next(batch)) {
          found.push_back(job.train_step(batch).loss);
          if (looks) EXPECT_EQ(job.find_nonfinite(batch), "");
        }
        return found;
      };
      EXPECT_EQ(losses(true), losses(false));
    });
  }
}

class AveragedWeights : public TrainerTest {
 protected:
  static constexpr double kDecay = 0.75;

  // Trains until `steps`, from `from` if that is given, saves to `name` and returns it.
  std::string trained(const World& world, const std::string& name, int64_t steps, bool averages = true,
                      const std::string& from = "", bool evaluates = false) const {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    if (averages) job.average_weights(kDecay);
    if (!from.empty()) booster.load_training(job, from);
    TrainerOptions options{.steps = steps};
    if (evaluates) {
      options.evaluate_every = 1;
      options.evaluation = {set(world, "books", 3)};
    }
    Trainer training(booster, job, std::move(options));
    training.fit();
    training.save(in(name));
    if (evaluates) {
      const EvaluationValues values = *training.evaluation();
      EXPECT_NE(values.at("loss"), values.at("ema/loss"));
      training.job().swap_average();
      EXPECT_TRUE(training.evaluate());
      EXPECT_EQ(training.evaluation()->at("loss"), values.at("ema/loss"));
      training.job().swap_average();
    }
    return in(name);
  }
};

at::Tensor values_of(const RawTensor& tensor) {
  return at::from_blob(const_cast<char*>(tensor.bytes.data()),
                       {static_cast<int64_t>(tensor.bytes.size() / 4)}, at::kFloat)
      .to(at::kDouble);
}

TEST_F(AveragedWeights, FollowTheFormulaUnderEveryStrategy) {
  std::vector<RawTensors> weights;
  on_ranks({1}, [&](World& world) {
    for (int64_t steps = 1; steps <= 3; ++steps)
      trained(world, "plain" + std::to_string(steps), steps, /*averages=*/false);
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.save_model(job.model, in("plain0"));
  });
  for (int step = 0; step <= 3; ++step)
    weights.push_back(read_safetensors(in("plain" + std::to_string(step) + "/model.safetensors")));
  for (const auto& [strategy, options] : std::vector<std::pair<std::string, std::string>>{
           {"torch_ddp", "{}"}, {"torch_fsdp", "{}"}, {"hybrid_parallel", R"({"tp_size": 2})"}}) {
    options_.strategy = strategy;
    options_.strategy_options = options;
    on_ranks({2}, [&, name = strategy](World& world) { trained(world, name, 3); });
    const RawTensors found = read_safetensors(in(strategy + "/ema/model.safetensors"));
    ASSERT_EQ(found.size(), weights[0].size());
    for (const auto& [name, tensor] : found) {
      at::Tensor expected = values_of(weights[0].at(name));
      for (int step = 1; step <= 3; ++step)
        expected = kDecay * expected + (1 - kDecay) * values_of(weights[step].at(name));
      EXPECT_TRUE(at::allclose(values_of(tensor), expected, 0, 2e-6)) << strategy << " " << name;
    }
    EXPECT_TRUE(fs::exists(in(strategy + "/ema/config.json")));
  }
}

TEST_F(AveragedWeights, ChangeNothingThatIsTrainedAndResumeExactly) {
  for (const char* strategy : {"torch_ddp", "torch_fsdp", "low_level_zero"}) {
    options_.strategy = strategy;
    options_.precision = options_.strategy == "low_level_zero" ? "bf16" : "fp32";
    on_ranks({2}, [&](World& world) {
      const std::string plain = trained(world, "p", 4, false), whole = trained(world, "w", 4, true, "", true),
                        half = trained(world, "h", 2, true, "", true),
                        rest = trained(world, "r", 4, true, half);
      EXPECT_EQ(read_bytes(whole + "/model.safetensors"), read_bytes(plain + "/model.safetensors"));
      for (const char* file : {"/model.safetensors", "/ema/model.safetensors"})
        EXPECT_EQ(read_bytes(rest + file), read_bytes(whole + file)) << strategy << file;
      EXPECT_FALSE(fs::exists(plain + "/ema"));
    });
  }
}

TEST_F(AveragedWeights, BeginWithTheWeightsOfACheckpointWithoutThem) {
  on_ranks({1}, [&](World& world) {
    const std::string plain = trained(world, "p", 2, false), more = trained(world, "m", 2, true, plain);
    EXPECT_EQ(read_bytes(more + "/ema/model.safetensors"), read_bytes(plain + "/model.safetensors"));
    Job job = make_job(world, options_);
    EXPECT_ERROR(job.average_weights(1), WEFT_INVALID_ARGUMENT, "decay");
    EXPECT_ERROR(job.swap_average(), WEFT_FAILED_PRECONDITION, "average");
  });
}

}  // namespace
}  // namespace weft::test
