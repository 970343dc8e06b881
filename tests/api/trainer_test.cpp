// The Trainer and its hooks: in which order they are called, and what they may ask for.
#include <gmock/gmock.h>

#include <algorithm>

#include "api/trainer.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

using testing::ElementsAre;

TEST_F(TrainerTest, CallsHooksInTheStatedOrder) {
  options_.accumulate = 2;
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    const auto save = [&](Trainer& t) {
      if (t.step() == 1) t.save(in("order"));
    };
    notes->then["end_step"] = save;
    Trainer training = trainer(
        world, {.steps = 2, .evaluate_every = 2, .evaluation = {set(world, "books", 3)}, .hooks = {notes}});
    training.fit();
    EXPECT_THAT(notes->take(),
                ElementsAre("begin", "before_epoch", "before_step", "before_micro_batch 0",
                            "after_micro_batch 0", "before_micro_batch 1", "after_micro_batch 1",
                            "before_update", "after_update", "after_step", "end_step", "before_save",
                            "after_save", "before_step", "before_micro_batch 0", "after_micro_batch 0",
                            "before_micro_batch 1", "after_micro_batch 1", "before_update", "after_update",
                            "after_step", "before_evaluation", "after_evaluation", "end_step", "end"));
  });
}

TEST_F(TrainerTest, CallsHooksOfEpochsAtTheirBorders) {
  on_ranks({1}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    std::vector<int64_t> begun, ended;
    notes->then = {{"before_epoch", [&](Trainer& t) { begun.push_back(t.epoch()); }},
                   {"after_epoch", [&](Trainer& t) { ended.push_back(t.step()); }}};
    Trainer training = trainer(world, {.epochs = 2, .hooks = {notes}});
    EXPECT_EQ(training.total_steps(), 2 * kEpoch);
    training.fit();
    EXPECT_THAT(begun, ElementsAre(0, 1));
    EXPECT_THAT(ended, ElementsAre(kEpoch, 2 * kEpoch));
  });
}

// With pipeline stages the micro-batches of a rank overlap.
TEST_F(TrainerTest, CallsHooksOfMicroBatchesUnderPipelineStages) {
  options_.strategy = "hybrid_parallel";
  options_.strategy_options = R"({"pp_size": 2, "num_microbatches": 4})";
  on_ranks({2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    Trainer training = trainer(world, {.steps = 1, .hooks = {notes}});
    training.fit();
    for (int i = 0; i < 4; ++i) {
      const auto place = [&](const char* moment) {
        const std::string name = moment + std::to_string(i);
        EXPECT_EQ(std::count(notes->seen.begin(), notes->seen.end(), name), 1) << name;
        return std::find(notes->seen.begin(), notes->seen.end(), name) - notes->seen.begin();
      };
      EXPECT_LT(place("before_micro_batch "), place("after_micro_batch "));
    }
  });
}

TEST_F(TrainerTest, AHookLeavesOutStepsAndUpdates) {
  on_ranks({1, 2}, [&](World& world) {
    const auto losses = [&](const std::string& moment, int64_t left_out) {
      const auto notes = std::make_shared<Notes>();
      std::vector<double> found;
      int64_t batches = 0;
      notes->then["before_step"] = [&, moment](Trainer& t) {
        if (++batches == left_out && moment == "before_step") t.skip();
      };
      notes->then["before_update"] = [&, moment](Trainer& t) {
        if (batches == left_out && moment == "before_update") t.skip();
      };
      notes->then["after_step"] = [&](Trainer& t) {
        if (t.result().updated) found.push_back(t.result().loss);
      };
      Trainer training = trainer(world, {.steps = 3, .hooks = {notes}});
      training.fit();
      EXPECT_EQ(training.job().optimizer.steps(), 3);
      return found;
    };
    const std::vector<double> steps = losses("before_step", 2), updates = losses("before_update", 2);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps, updates) << "both train on the batches 1, 3 and 4";
    EXPECT_NE(steps, losses("before_step", 0));
  });
}

// Counts the samples of this rank.
class Counted final : public SetMeasures {
 public:
  Names seen;
  void check(Job&) override { seen.emplace_back("check"); }
  void begin() override {
    seen.emplace_back("begin");
    samples_ = 0;
  }
  void add(Job&, const Batch& batch, const State& outputs) override {
    seen.emplace_back("add");
    if (!batch.empty) samples_ += outputs.at("logits").size(0);
  }
  void end(EvaluationValues& values) override {
    seen.emplace_back("end");
    values["samples"] = static_cast<double>(samples_);
  }

 private:
  int64_t samples_ = 0;
};

TEST_F(TrainerTest, MeasuresMoreOfASetAndTakesTheValuesOfRank0) {
  on_ranks({1, 2}, [&](World& world) {
    const auto counted = std::make_shared<Counted>();
    EvaluationSet measured = set(world, "a", 3);
    measured.measures = {counted};
    Trainer training =
        trainer(world, {.steps = 2, .evaluate_every = 1, .evaluation = {measured, set(world, "b", 4)}});
    training.fit();
    EXPECT_THAT(counted->seen, ElementsAre("check", "begin", "add", "add", "add", "end", "begin", "add",
                                           "add", "add", "end"));
    const EvaluationValues values = *training.evaluation();
    const double samples = world.size() == 1 ? 9 : 5;
    EXPECT_EQ(values.at("samples"), samples);
    EXPECT_EQ(values.at("a/samples"), samples);
    EXPECT_FALSE(values.contains("b/samples"));
    EXPECT_ERROR(measure_answers(measured.data), WEFT_INVALID_ARGUMENT, "set-a3", "questions");
  });
}

TEST_F(TrainerTest, AHookAsksForAnEvaluationAndStops) {
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    notes->then["after_step"] = [](Trainer& t) {
      if (t.step() != 2) return;
      t.ask_for_evaluation();
      t.stop();
    };
    Trainer training = trainer(world, {.steps = 4,
                                       .evaluate_every = 4,
                                       .evaluation = {set(world, "a", 3), set(world, "b", 4)},
                                       .hooks = {notes}});
    training.fit();
    EXPECT_EQ(training.job().optimizer.steps(), 2);
    EXPECT_EQ(training.evaluated_step(), 2);
    const EvaluationValues values = *training.evaluation();
    EXPECT_EQ(values.at("loss"), values.at("a/loss"));
    EXPECT_NE(values.at("loss"), values.at("b/loss"));
    EXPECT_NEAR(*values.at("a/perplexity"), std::exp(*values.at("a/loss")), 1e-6);
    EXPECT_EQ(notes->seen.back(), "end");
  });
}

TEST_F(TrainerTest, HasTheSameBitsWithAndWithoutEvaluation) {
  for (const char* strategy : {"torch_ddp", "torch_fsdp"}) {
    options_.strategy = strategy;
    options_.model = folder_.file("dropout.json", config_json({.dropout = 0.2}));
    on_ranks({2}, [&](World& world) {
      const auto trained = [&](int64_t every) {
        TrainerOptions options{.steps = 6};
        options.evaluate_every = every;
        if (every > 0) options.evaluation = {set(world, "books", 3)};
        Trainer training = trainer(world, std::move(options));
        training.fit();
        training.save(in(std::to_string(every)));
        return read_bytes(in(std::to_string(every) + "/model.safetensors"));
      };
      EXPECT_EQ(trained(0), trained(2)) << strategy;
    });
  }
}

// A signal does not wait for the end of a long evaluation.
TEST_F(TrainerTest, ARequestToStopEndsAnEvaluation) {
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    notes->then["before_evaluation"] = [&](Trainer& t) {
      if (world.rank() == world.size() - 1) t.job().request_stop();
    };
    Trainer training = trainer(
        world, {.steps = 4, .evaluate_every = 2, .evaluation = {set(world, "books", 3)}, .hooks = {notes}});
    training.fit();
    EXPECT_EQ(training.step(), 3) << "the next step agrees on it";
    EXPECT_FALSE(training.evaluation().has_value());
    EXPECT_EQ(std::count(notes->seen.begin(), notes->seen.end(), "after_evaluation"), 0);
  });
}

TEST_F(TrainerTest, StateOfHooksIsSavedAndRestored) {
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    notes->kept = "what the hook keeps";
    Trainer training = trainer(world, {.steps = 1, .hooks = {notes}});
    training.fit();
    training.save(in("kept"));
    Booster booster({}, world);
    Job job = make_job(world, options_);
    booster.load_training(job, in("kept"));
    const auto fresh = std::make_shared<Notes>();
    Trainer(booster, job, {.steps = 2, .hooks = {fresh}}).fit();
    EXPECT_EQ(fresh->restored, "what the hook keeps");
  });
}

TEST_F(TrainerTest, RefusesOptionsThatContradictEachOther) {
  on_ranks({1}, [&](World& world) {
    const auto expect_refusal = [&](TrainerOptions options, const char* word) {
      EXPECT_ERROR(trainer(world, std::move(options)), WEFT_INVALID_ARGUMENT, word);
    };
    expect_refusal({}, "steps");
    expect_refusal({.steps = 1, .epochs = 1}, "epochs");
    expect_refusal({.steps = 1, .evaluate_every = 1}, "data");
    expect_refusal({.steps = 1, .evaluation = {set(world, "a", 3)}}, "time");
    expect_refusal({.steps = 1, .evaluate_every = 1, .evaluation = {set(world, "a", 3), set(world, "a", 4)}},
                   "\"a\"");
    const auto notes = std::make_shared<Notes>();
    expect_refusal({.steps = 1, .hooks = {notes, notes}}, "notes");
    options_.data.clear();
    EXPECT_ERROR(trainer(world, {.steps = 1}), WEFT_FAILED_PRECONDITION, "data");
    EXPECT_ERROR(EarlyStopping("loss", 0), WEFT_INVALID_ARGUMENT, "patience");
    EXPECT_ERROR(Checkpoints({.folder = in("x"), .keep_last = 2}, world), WEFT_INVALID_ARGUMENT, "keep_last");
    EXPECT_ERROR(Checkpoints({.folder = in("x"), .end_with_best = true}, world), WEFT_INVALID_ARGUMENT,
                 "keep_best");
  });
}

TEST_F(TrainerTest, AnUnknownValueIsAnErrorBeforeTheFirstStep) {
  on_ranks({1, 2}, [&](World& world) {
    const auto notes = std::make_shared<Notes>();
    Trainer training = trainer(world, {.steps = 2,
                                       .evaluate_every = 1,
                                       .evaluation = {set(world, "books", 3)},
                                       .hooks = {notes, std::make_shared<EarlyStopping>("los", 1)}});
    EXPECT_ERROR(training.fit(), WEFT_INVALID_ARGUMENT, "\"los\"");
    EXPECT_EQ(training.job().optimizer.steps(), 0);
  });
}

TEST(Better, IsLowerForLossesAndHigherForTheOthers) {
  EXPECT_TRUE(is_better("loss", 1.0, 2.0));
  EXPECT_FALSE(is_better("loss", 2.0, 1.0));
  EXPECT_FALSE(is_better("books/perplexity", 3.0, 2.0));
  EXPECT_TRUE(is_better("accuracy", 0.5, 0.4));
  EXPECT_FALSE(is_better("accuracy", 0.4, 0.4)) << "ties keep the earlier";
  EXPECT_TRUE(is_better("f1_macro", 0.0, std::nullopt));
  EXPECT_FALSE(is_better("f1_macro", std::nullopt, 0.1));
  EXPECT_FALSE(is_better("loss", std::numeric_limits<double>::quiet_NaN(), std::nullopt));
}

TEST_F(TrainerTest, StopsWhenTheLossHasNotBecomeBetter) {
  on_ranks({1, 2}, [&](World& world) {
    const std::map<int64_t, double> losses = {{1, 5}, {2, 4}, {3, 4}, {4, 4.5}, {5, 3}};
    const auto run = [&](int64_t patience, int64_t from, int64_t until) {
      Booster booster({}, world);
      Job job = make_job(world, options_);
      if (from > 0) booster.load_training(job, in("patience"));
      Trainer training(
          booster, job,
          {.steps = until,
           .evaluate_every = 1,
           .evaluation = {set(world, "books", 3)},
           .hooks = {std::make_shared<Values>(losses), std::make_shared<EarlyStopping>("loss", patience)}});
      training.fit();
      training.save(in("patience"));
      return training.step();
    };
    EXPECT_EQ(run(2, 0, 5), 4);
    EXPECT_EQ(run(3, 0, 5), 5);
    EXPECT_EQ(run(2, 0, 3), 3);
    EXPECT_EQ(run(2, 3, 5), 4) << "a resumed training has waited before";
  });
}

}  // namespace
}  // namespace weft::test
