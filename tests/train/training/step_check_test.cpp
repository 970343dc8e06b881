// Strategies that would train to another model without an error: each mistake is found, and no step without
// one is refused.
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "train/training/boosted.hpp"
#include "train/training/recorder.hpp"
#include "training/digest.hpp"
#include "weft/booster.hpp"

namespace weft::test {

namespace {

class StepChecks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    unsetenv("WEFT_PLUGIN_PATH");  // checkpoints need the format of the tree
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  }

  struct Wrong {
    const char* mistake = "none";
    int64_t from_step = 1;
    int64_t check_agreement = 0;
    const char* precision = "fp32";
    int64_t accumulate = 1;
  };

  static Booster booster(const World& world, const Wrong& wrong) {
    BoosterOptions options;
    options.strategy = "mistaken";
    options.options = fmt::format(R"({{"mistake": "{}", "from_step": {}}})", wrong.mistake, wrong.from_step);
    options.check_agreement = wrong.check_agreement;
    options.precision = wrong.precision;
    options.accumulate = wrong.accumulate;
    return Booster(options, world);
  }

  // Steps until the first error, which ends the training: how many came through, and its text.
  static std::pair<int64_t, std::string> train(const World& world, const Wrong& wrong, int64_t steps) {
    const Model model = toy({.precision = wrong.precision}, "\"gated\": false");
    Job job = booster(world, wrong).boost(model, optim::AdamW(model.parameters(), {.lr = 1e-3}));
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t samples = 4, begin = samples * world.rank();
      const Batch own = part_of(toy_batch(samples * world.size(), step, false), begin, begin + samples);
      try {
        job.train_step(own);
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), WEFT_INTERNAL) << error.what();
        EXPECT_ERROR(job.train_step(own), WEFT_FAILED_PRECONDITION, "mistaken", "earlier step",
                     "a checkpoint");
        return {step, error.what()};
      }
    }
    return {steps, ""};
  }
};

TEST_F(StepChecks, FindEveryMistakeInTheFirstTwoSteps) {
  struct Case {
    const char* mistake;
    int64_t steps;  // that come through
    std::vector<std::string> pieces;
  };
  const Case cases[] = {{"never reduces", 0, {"mistaken", "published gradient", "the 2 ranks"}},
                        {"averages", 0, {"mistaken", "published gradient", "about 0.50", "not average"}},
                        {"sums twice", 0, {"mistaken", "published gradient", "about 2.00"}},
                        {"forgets one", 0, {"mistaken", "published gradient", "the 2 ranks"}},
                        {"keeps gradients", 1, {"mistaken", "published gradient", "earlier steps"}},
                        {"publishes copies", 1, {"mistaken", "other values", "values_changed makes"}},
                        {"publishes fresh copies", 0, {"mistaken", "published again"}},
                        {"publishes one fresh copy", 0, {"mistaken", "published again"}},
                        {"drifts", 1, {"not the same", "rank 0 has one", "rank 1 has another", "mistaken"}}};
  on_ranks({2}, [&](World& world) {
    for (const Case& c : cases) {
      const auto [steps, text] = train(world, {.mistake = c.mistake}, 4);
      EXPECT_EQ(steps, c.steps) << c.mistake;
      for (const std::string& piece : c.pieces) EXPECT_NE(text.find(piece), std::string::npos) << text;
    }
  });
}

// In the first step, when its gradients are compared.
TEST_F(StepChecks, FailOnEveryRankIfOneCannotPublish) {
  on_ranks({2}, [&](World& world) {
    const auto [steps, text] = train(world, {.mistake = "publishes less", .from_step = 2}, 4);
    EXPECT_EQ(steps, 0);
    EXPECT_NE(text.find("published ranges"), std::string::npos) << text;
  });
}

TEST_F(StepChecks, RefuseNothingElse) {
  on_ranks({1, 2, 3}, [&](World& world) {
    for (const char* precision : {"fp32", "fp64"})
      for (const int64_t accumulate : {1, 3}) {
        const Wrong right = {.check_agreement = 1, .precision = precision, .accumulate = accumulate};
        EXPECT_EQ(train(world, right, 5), std::pair(int64_t{5}, std::string())) << precision << accumulate;
      }
  });
}

// On one rank there is nothing to sum and nobody to compare with, but gradients can stay and copies be
// published.
TEST_F(StepChecks, FindMistakesOfOneRank) {
  on_ranks({1}, [&](World& world) {
    EXPECT_EQ(train(world, {.mistake = "keeps gradients"}, 4).first, 1);
    EXPECT_EQ(train(world, {.mistake = "publishes copies"}, 4).first, 1);
    EXPECT_EQ(train(world, {.mistake = "publishes one fresh copy"}, 4).first, 0);
  });
}

TEST_F(StepChecks, FindALateMistakeWhereTheyAreDue) {
  on_ranks({2}, [&](World& world) {
    for (const char* mistake : {"averages", "never reduces"}) {
      EXPECT_EQ(train(world, {.mistake = mistake, .from_step = 4, .check_agreement = 3}, 8).first, 5);
      EXPECT_EQ(train(world, {.mistake = mistake, .from_step = 4}, 8).first, 8);
      EXPECT_EQ(train(world, {.mistake = mistake, .check_agreement = -1}, 8).first, 8);
    }
  });
}

TEST_F(StepChecks, RefuseToSaveRanksThatDiverged) {
  on_ranks({2}, [&](World& world) {
    const TemporaryFolder folder;
    const std::string out = world.communicator().broadcast_text(folder.path(), 0) + "/out";
    for (const int64_t check : {0, -1}) {
      const Model model = toy({}, "\"gated\": false");
      Booster made = booster(world, {.mistake = "never reduces", .from_step = 3, .check_agreement = check});
      Job job = made.boost(model, optim::AdamW(model.parameters(), {.lr = 1e-3}));
      for (int64_t step = 0; step < 4; ++step)
        job.train_step(part_of(toy_batch(8, step, false), 4 * world.rank(), 4 * world.rank() + 4));
      if (check < 0) {
        made.save_model(job.model, out);
        continue;
      }
      EXPECT_ERROR(made.save_model(job.model, out), WEFT_INTERNAL, "the same", "the ranks", "rank 0 has one",
                   "rank 1 has another", "strategy mistaken", "Nothing was saved", "check_agreement -1");
      EXPECT_ERROR(made.save_training(job, out), WEFT_INTERNAL, "the same", "the ranks");
      EXPECT_FALSE(std::ifstream(out + "/config.json").good());
    }
  });
}

// A step of the caller's own loop leaves gradients pending, which a check must not count as the strategy's.
TEST_F(StepChecks, AreLeftOutWhereGradientsArePending) {
  on_ranks({2}, [&](World& world) {
    const Model model = toy({}, "\"gated\": false");
    Job job =
        booster(world, {.check_agreement = 1}).boost(model, optim::AdamW(model.parameters(), {.lr = 1e-3}));
    const auto batch = [&](int64_t step) {
      return part_of(toy_batch(8, step, false), 4 * world.rank(), 4 * world.rank() + 4);
    };
    for (int64_t step = 0; step < 3; ++step) {
      job.accumulate_gradients(batch(step), false);
      EXPECT_NO_THROW(job.train_step(batch(step + 1)));
    }
    EXPECT_NO_THROW(job.train_step(batch(7)));
  });
}

// As where the blocks of a file that are compared are alike, but not its other elements.
WEFT_RANKS_TEST(Replicas, AreRefusedWhereTheirValuesDiffer, 2, 3) {
  for (const bool differs : {false, true}) {
    Recorder recorder;
    TrainingOptions options;
    if (differs && world.rank() == 1) options.booster.seed = 7;
    const auto training = make_training(world, make_toy(), recorder, options);
    if (!differs) {
      training->bindings().check_replicas(Bindings::Origin::kBoosted);
      continue;
    }
    using Origin = Bindings::Origin;
    struct Case {
      Origin origin;
      weft_status status;
      const char* remedy;
      bool can_be_left_out;  // by check_agreement
    };
    for (const Case& c : {Case{Origin::kBoosted, WEFT_FAILED_PRECONDITION, "sync_module_states", false},
                          Case{Origin::kLoaded, WEFT_FAILED_PRECONDITION, "load them", false},
                          Case{Origin::kTakenOver, WEFT_INTERNAL, "the strategy", false},
                          Case{Origin::kTrained, WEFT_INTERNAL, "earlier checkpoint", true},
                          Case{Origin::kSaved, WEFT_INTERNAL, "Nothing was saved", true}})
      try {
        training->bindings().check_replicas(c.origin);
        ADD_FAILURE() << c.remedy;
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.status(), c.status) << text;
        for (const char* piece :
             {"same elements", world.size() == 2 ? "rank 0 has one" : "ranks 0 and 2 have one",
              "rank 1 has another", c.remedy})
          EXPECT_NE(text.find(piece), std::string::npos) << text;
        EXPECT_EQ(text.find("check_agreement") != std::string::npos, c.can_be_left_out) << text;
      }
  }
}

// As under ZeRO, where a parameter of which every tensor-parallel rank has the whole lies in one buffer with
// parts of unequal sizes, so that the data-parallel ranks of each tensor-parallel rank divide it elsewhere.
WEFT_RANKS_TEST(Replicas, AreRefusedWhereRanksDivideThemElsewhere, 4) {
  for (const bool differs : {false, true}) {
    Recorder recorder;
    recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[axis::kData] = 2; };
    recorder.publish = [&](weft_shard_sink* sink) {
      const Mesh& mesh = recorder.training->mesh();
      for (const auto& param : recorder.training->params()) {
        const int64_t all = param->count(), middle = all / (2 + mesh.place(Mesh::tensor()).rank);
        const bool first = mesh.place(Mesh::samples()).rank == 0;
        const int64_t begin = first ? 0 : middle, count = first ? middle : all - middle;
        const at::Tensor value = param->tensor.detach().view(-1).narrow(0, begin, count);
        const weft_shard shard{sizeof(shard), param.get(),       begin, count,  handle_of(value),
                               nullptr,       1u << axis::kData, 0,     nullptr};
        call([&](weft_error* error) { return publish_services().shard(sink, &shard, error); });
      }
    };
    TrainingOptions options;
    options.host.plan_flags.tensor = 2;
    if (differs && world.rank() == 3) options.booster.seed = 7;
    const auto training = make_training(world, make_toy(), recorder, options, [](const Mesh&) {
      plan::Plan whole;
      whole.architecture = "ToyModel";
      whole.sizes.tensor = 2;
      return whole;
    });
    if (differs)
      EXPECT_ERROR(training->bindings().check_replicas(Bindings::Origin::kBoosted), WEFT_FAILED_PRECONDITION,
                   "same elements", "ranks 0 and 2 have one", "ranks 1 and 3 have another");
    else
      training->bindings().check_replicas(Bindings::Origin::kBoosted);
  }
}

TEST(Digest, AddsUpOverRangesAndSeesEveryBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    at::manual_seed(1);
    const at::Tensor values = at::randn({10000}).to(dtype);
    const uint64_t whole = digest_of(values, 0, dtype);
    uint64_t parts = 0;
    for (const auto& [begin, count] : {std::pair{0, 1}, {1, 4094}, {4095, 3}, {4098, 5902}})
      parts += digest_of(values.narrow(0, begin, count), begin, dtype);
    EXPECT_EQ(parts, whole);
    for (const int64_t at : {0, 4095, 4096, 9999}) {
      at::Tensor other = values.clone();
      other[at].mul_(-1);  // the sign bit alone
      EXPECT_NE(digest_of(other, 0, dtype), whole) << at;
    }
    at::Tensor swapped = values.clone();
    swapped[1].copy_(values[4097]);  // at the same place of another block
    swapped[4097].copy_(values[1]);
    EXPECT_NE(digest_of(swapped, 0, dtype), whole);
    EXPECT_NE(digest_of(values, 1, dtype), whole);
  }
  const at::Tensor master = at::randn({3000});
  EXPECT_EQ(digest_of(master, 5, at::kBFloat16), digest_of(master.to(at::kBFloat16), 5, at::kBFloat16));
}

TEST(Sketch, IsLinearAndEstimatesTheNorm) {
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor a = at::randn({200000}).to(dtype), b = at::randn({200000}).to(dtype);
    Sketch of_a = {}, of_b = {}, of_sum = {}, of_parts = {};
    add_to_sketch(a, 0, of_a);
    add_to_sketch(b, 0, of_b);
    add_to_sketch(a + b, 0, of_sum);
    add_to_sketch(a.narrow(0, 0, 70001), 0, of_parts);
    add_to_sketch(a.narrow(0, 70001, 129999), 70001, of_parts);
    for (int s = 0; s < kSketches; ++s) {
      EXPECT_NEAR(of_sum.projections[s], of_a.projections[s] + of_b.projections[s], 1e-3);
      EXPECT_NEAR(of_parts.projections[s], of_a.projections[s], 1e-3);
    }
    EXPECT_NEAR(of_parts.square, a.square().sum().item<double>(), 1e-4 * of_parts.square);
  }
  double mean = 0;
  for (int64_t i = 0; i < 200; ++i) {
    Sketch sketch = {};
    add_to_sketch(at::randn({5000}), 0, sketch);
    mean += mean_square(sketch.projections) / 200;
  }
  EXPECT_NEAR(mean, 5000, 5000 * 0.15);  // 3 standard deviations of 800 projections are 15 %
}

}  // namespace

}  // namespace weft::test
