// What the host's pipeline refuses on all of its stages, and how they end when one fails.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <weft/nn/layers.hpp>

#include <chrono>
#include <functional>
#include <memory>

#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"
#include "train/training/staged.hpp"

namespace weft::test {

namespace {

WEFT_RANKS_TEST(PipelineStages, RefuseALoopOfTheCallersOwn, 2) {
  const JobOptions options = {.strategy = "torch_ddp", .options = R"({"pp_size": 2})"};
  Job job = boost(world, toy(options, R"("gated": false)"), options);
  EXPECT_ERROR(job.model(toy_batch(2, 1)), WEFT_FAILED_PRECONDITION, "torch_ddp", "pp_size is 2",
               "execute_pipeline", "train_step");
  Booster booster(BoosterOptions{.strategy = "torch_ddp"}, world);
  EXPECT_ERROR(booster.backward(at::ones({}), job.optimizer), WEFT_FAILED_PRECONDITION, "a loss",
               "pp_size is 2", "execute_pipeline");
  EXPECT_NO_THROW(job.train_step(toy_batch(4, 1, false)));  // no harm was done
}

WEFT_RANKS_TEST(PipelineStages, RefuseDifferentBatchesByTheFieldThatDiffers, 2) {
  const JobOptions options = {.strategy = "torch_ddp", .options = R"({"pp_size": 2, "num_microbatches": 2})"};
  Job job = boost(world, toy(options), options);
  Batch batch = toy_batch(4, 1);
  const int64_t positions = batch.at("kinds").size(1);
  if (world.rank() == 1) batch.set("kinds", batch.at("kinds").narrow(1, 0, positions - 1));
  EXPECT_ERROR(job.train_step(batch), WEFT_FAILED_PRECONDITION, "ToyModel",
               "in micro-batch 0 the field \"kinds\"", "on stage 0", "on stage 1");
}

WEFT_RANKS_TEST(PipelineStages, RefuseDifferentNumbersOfMicroBatches, 2) {
  Recorder recorder;
  const auto training = make_stages(world, recorder, {.size = 2});
  EXPECT_ERROR(training->run_step(toy_micro_batches(2 + world.rank())), WEFT_FAILED_PRECONDITION,
               "stage 0 has 2 micro-batches and stage 1 has 3");
}

// Whether all stages have the sample that is wrong, or the last one alone.
WEFT_RANKS_TEST(PipelineStages, RefuseABatchBeforeItsFirstMicroBatchRuns, 2) {
  for (const int first_wrong : {0, 1}) {
    SCOPED_TRACE(first_wrong);
    Recorder recorder;
    const auto training = make_stages(world, recorder, {.size = 2});
    std::vector<Batch> batches = toy_micro_batches(3);
    if (world.rank() >= first_wrong) batches.back().set("ids", batches.back().at("ids") + 100);
    recorder.events.clear();
    EXPECT_ERROR(training->run_step(batches), WEFT_INVALID_ARGUMENT,
                 world.rank() < first_wrong ? "rank 1 failed" : "ids");
    EXPECT_EQ(recorder.events, std::vector<std::string>());
  }
}

// A stage that refused its batch alone would leave the other one waiting.
WEFT_RANKS_TEST(PipelineStages, RefuseTogetherWhatIsWrongWithTheBatchOfOneStage, 2) {
  Recorder recorder;
  const auto training = make_stages(world, recorder, {.size = 2});
  const auto refuse = [&](const auto& change, const char* text) {
    SCOPED_TRACE(text);
    std::vector<Batch> batches = toy_micro_batches(3);
    if (world.rank() == 1)
      for (Batch& batch : batches) change(batch);
    recorder.events.clear();
    EXPECT_ERROR(training->run_step(batches), WEFT_FAILED_PRECONDITION, "ToyModel", "in micro-batch 0 ",
                 text);
    EXPECT_EQ(recorder.events, std::vector<std::string>());
  };
  refuse([](Batch& batch) { batch.set("ids", batch.at("ids").flatten()); }, "the field \"ids\" is [");
  refuse(
      [](Batch& batch) {
        batch = {{"ids", batch.at("ids")}, {"kinds", batch.at("kinds")}};
      },
      "the field \"labels\" is [");
  refuse([](Batch& batch) { batch.set("labels", at::full_like(batch.at("labels"), -100)); },
         "0 of \"loss\" on stage 1");
  EXPECT_NO_THROW(training->run_step(toy_micro_batches(3)));  // no harm was done
}

// A model of two layers whose boundary() is wrong about what the first one leaves.
class WrongBoundary final : public nn::Model {
 public:
  enum class Says { kOtherShape, kOneFieldMore, kUnchanged, kWithoutGradient };
  explicit WrongBoundary(Says says) : Model(Config()), says_(says) {
    for (const char* name : {"first", "second"}) {
      nn::Linear* const layer =
          register_module(name, std::make_shared<nn::Linear>(4, 4, false, at::kDouble)).get();
      units_.push_back(
          nn::make_unit(name, {layer}, [layer](State& state) { state.set("x", (*layer)(state.at("x"))); }));
    }
  }
  std::string architecture() const override { return "WrongBoundary"; }
  std::vector<nn::Unit*> units() override { return {units_[0].get(), units_[1].get()}; }
  State input(const Batch& batch) const override { return {{"x", batch.at("x")}}; }
  std::vector<nn::LossTerm> loss(const State& last, const Batch&) const override {
    return {{"loss", 1, last.at("x").sum()}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    return {{"loss", static_cast<double>(batch.at("x").size(0))}};
  }
  State outputs(const State& last) const override { return last; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override {
    nn::FieldShape x = {"x", {batch.at("x").size(0), 4}, at::kDouble, index > 0};
    if (index == 0) return {x};
    if (says_ == Says::kOtherShape) x.shape.back() = 5;
    if (says_ == Says::kUnchanged) x.from_input = true;
    if (says_ == Says::kWithoutGradient) x.differentiable = false;
    std::vector<nn::FieldShape> fields = {x};
    if (says_ == Says::kOneFieldMore) fields.push_back({"y", x.shape, x.dtype, true});
    return fields;
  }
  nn::Initial initial(std::string_view) const override { return nn::Initial::normal(0, 1); }

 private:
  const Says says_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
};

std::vector<Batch> batch_of_ones() {
  return {Batch{{"x", at::ones({3, 4}, at::kDouble)}}};
}

// The stage that would send it says so; the others say what they waited for.
WEFT_RANKS_TEST(PipelineStages, NameTheFieldThatIsNotAsTheModelSays, 2) {
  Recorder recorder;
  const auto model = std::make_shared<WrongBoundary>(WrongBoundary::Says::kOtherShape);
  const auto training = make_stages(world, recorder, {.size = 2}, model);
  if (world.rank() == 0) {
    EXPECT_ERROR(training->run_step(batch_of_ones()), WEFT_INTERNAL, "WrongBoundary", "field \"x\"",
                 "unit first", "is [3, 4] of Double", "[3, 5] of Double");
  } else {
    EXPECT_ERROR(training->run_step(batch_of_ones()), WEFT_UNAVAILABLE,
                 "State of micro-batch 0 from stage 0");
  }
}

// Trains on two stages, the first of which refuses to pass on its State with this text.
void expect_refusal_to_pass(const std::function<std::shared_ptr<nn::Model>()>& make_model,
                            const std::vector<Batch>& batches, const std::string& field,
                            const std::string& text) {
  SCOPED_TRACE(text);
  on_ranks({2}, [&](World& world) {
    Recorder recorder;
    const auto training = make_stages(world, recorder, {.size = 2}, make_model());
    if (world.rank() == 0) {
      EXPECT_ERROR(training->run_step(batches), WEFT_INTERNAL, "the field \"" + field + "\"", "next pipeline",
                   text);
      return;
    }
    try {
      training->run_step(batches);  // waits for a State, or has what it needs from the batch
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), WEFT_UNAVAILABLE) << error.what();
    }
  });
}

// Otherwise the next stage would compute with other fields than one rank does, or drop a gradient.
TEST(PipelineStages, RefuseAStateThatTheModelDescribesWrongly) {
  using Says = WrongBoundary::Says;
  const auto says = [](Says what) {
    return [what]() -> std::shared_ptr<nn::Model> { return std::make_shared<WrongBoundary>(what); };
  };
  expect_refusal_to_pass(says(Says::kOneFieldMore), batch_of_ones(), "y", "not exist");
  expect_refusal_to_pass(says(Says::kUnchanged), batch_of_ones(), "x", "the batch");
  expect_refusal_to_pass(says(Says::kWithoutGradient), batch_of_ones(), "x", "not differentiable");
  // Its boundary() does not list this field, which a block reads if it is there.
  expect_refusal_to_pass([] { return make_toy("", at::kDouble); }, {with(toy_batch(2, 1), "cut", 1)}, "cut",
                         "model lists");
}

// The stages beside it wait for its tensors, and end when it does.
TEST(PipelineStages, EndWhenOneIsKilledInAnyPhase) {
  using Clock = std::chrono::steady_clock;
  for (const char* phase : {"before_forward", "after_forward", "begin_backward", "end_backward"}) {
    SCOPED_TRACE(phase);
    const std::vector<RankOutcome> outcomes = run_ranks(3, [&](int rank) {
      const World world = launch(std::chrono::seconds(30));
      Recorder recorder;
      const auto training = make_stages(world, recorder, {.size = 3});
      recorder.on_event = [&](const std::string& event) {
        if (rank == 1 && event.starts_with(phase)) raise(SIGKILL);
      };
      const auto begin = Clock::now();
      EXPECT_ERROR(training->run_step(toy_micro_batches(4)), WEFT_UNAVAILABLE, "communicator");
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
    });
    for (size_t rank = 0; rank < outcomes.size(); ++rank)
      EXPECT_EQ(outcomes[rank].passed, rank != 1)
          << rank << ": " << outcomes[rank].how << outcomes[rank].output;
  }
}

}  // namespace

}  // namespace weft::test
