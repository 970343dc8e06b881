// What the host's pipeline does with a step: the order of the hooks, chunks, micro-batches, and what it
// refuses.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <weft/nn/layers.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <tuple>

#include "engine/training/boosted.hpp"
#include "engine/training/recorder.hpp"
#include "memory/counting_allocator.hpp"
#include "schedule/text.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "training/micro_batches.hpp"

namespace weft::test {

namespace {

// Returns the sizes of micro-batches; 0 for a stand-in.
std::vector<int64_t> sizes_of(int64_t samples, int64_t accumulate, const PipelineOptions& options) {
  std::vector<int64_t> sizes;
  for (const Batch& micro : micro_batches(toy_batch(samples, 1), accumulate, options))
    sizes.push_back(micro.empty ? 0 : micro.samples());
  return sizes;
}

TEST(MicroBatches, AreAsManyAsAskedFor) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes_of(7, 1, {}), (Sizes{7}));
  EXPECT_EQ(sizes_of(7, 3, {}), (Sizes{2, 2, 3}));
  EXPECT_EQ(sizes_of(7, 1, {.size = 2}), (Sizes{3, 4}));
  EXPECT_EQ(sizes_of(7, 2, {.size = 2}), (Sizes{1, 2, 2, 2}));
  EXPECT_EQ(sizes_of(7, 1, {.size = 2, .micro_batches = 4}), (Sizes{1, 2, 2, 2}));
  EXPECT_EQ(sizes_of(2, 1, {.size = 2, .micro_batches = 3}), (Sizes{0, 1, 1}));
}

TEST(MicroBatches, AreAsLargeAsAskedFor) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes_of(7, 1, {.size = 2, .micro_batch_size = 3}), (Sizes{3, 3, 1}));
  EXPECT_EQ(sizes_of(7, 2, {.size = 2, .micro_batch_size = 2}), (Sizes{2, 1, 2, 2}));
  EXPECT_EQ(sizes_of(2, 1, {.size = 2, .micro_batch_size = 8}), (Sizes{2}));
}

TEST(MicroBatches, HaveEachSampleOnce) {
  const Batch batch = toy_batch(11, 1);
  for (const PipelineOptions& options : {PipelineOptions{.size = 4}, PipelineOptions{.micro_batches = 5},
                                         PipelineOptions{.micro_batch_size = 3}}) {
    std::vector<at::Tensor> ids;
    for (const Batch& micro : micro_batches(batch, 2, options)) ids.push_back(micro.at("ids"));
    EXPECT_TRUE(at::cat(ids).equal(batch.at("ids")));
  }
}

// A training of the toy model in fp64. Ranks that are not on the pipeline axis are data-parallel.
std::shared_ptr<Training> make_stages(const World& world, Recorder& recorder, PipelineOptions pipeline,
                                      std::shared_ptr<nn::Model> model = make_toy("", at::kDouble)) {
  recorder.describe_mesh = [&world](weft_mesh* mesh) {
    mesh->size[WEFT_AXIS_DATA] = static_cast<uint32_t>(world.size()) / mesh->size[WEFT_AXIS_PIPELINE];
  };
  TrainingOptions options;
  options.pipeline = std::move(pipeline);
  return make_training(world, std::move(model), recorder, options);
}

std::vector<Batch> toy_micro_batches(int64_t count) {
  return micro_batches(toy_batch(2 * count + 1, 3), count, {});
}

// Returns the order in which a stage ran forward ("F") and backward ("B") of its first unit, and checks that
// each backward has the hooks of all units, the later ones first.
std::string order_of(const Recorder& recorder, const std::vector<std::string>& units) {
  std::string order;
  const std::vector<std::string> events = recorder.without_gradients(), backward = backward_events(units);
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] == "before_forward " + units.front()) order += "F";
    if (!events[i].starts_with("begin_backward")) continue;
    order += "B";
    const size_t end = i + 1 + backward.size();
    if (end >= events.size()) {
      ADD_FAILURE() << events[i] << " has no end";
      break;
    }
    const std::vector<std::string> hooks(events.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                         events.begin() + static_cast<std::ptrdiff_t>(end));
    EXPECT_EQ(hooks, backward) << "after " << events[i];
    EXPECT_EQ(events[end], "end" + events[i].substr(5));
  }
  return order;
}

WEFT_RANKS_TEST(PipelineHooks, ComeInTheOrderOfTheSchedule, 2) {
  for (const auto& [style, first, last] :
       {std::tuple{"1f1b", "FFBFBB", "FBFBFB"}, std::tuple{"gpipe", "FFFBBB", "FFFBBB"}}) {
    SCOPED_TRACE(style);
    Recorder recorder;
    const auto training = make_stages(world, recorder, {.size = 2, .style = style});
    recorder.events.clear();
    training->run_step(toy_micro_batches(3));
    std::vector<std::string> units;
    for (const weft_unit* unit : training->bindings().own_units()) units.push_back(unit->unit->name());
    EXPECT_EQ(order_of(recorder, units), world.rank() == 0 ? first : last);
    EXPECT_EQ(recorder.of("begin_backward"),
              (std::vector<std::string>{"begin_backward 0 of 3", "begin_backward 1 of 3",
                                        "begin_backward 2 of 3 synchronised"}));
    // The tied one once, and at the end.
    const std::vector<std::string> ready = recorder.of("gradient_ready wte.weight");
    EXPECT_EQ(ready.size(), 1u);
    EXPECT_EQ(recorder.events[recorder.events.size() - 2], "gradient_ready wte.weight");
  }
}

// The first stage runs all forwards first and the second one does not, as under no style.
WEFT_RANKS_TEST(PipelineHooks, ComeInTheOrderOfAGivenSchedule, 2) {
  const auto schedule = std::make_shared<const pipeline::Schedule>(pipeline::parse_rows(
      {.stages = 2, .micro_batches = 3}, "F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2\n", "own"));
  Recorder recorder;
  const auto training =
      make_stages(world, recorder, {.size = 2, .schedule = schedule, .schedule_file = "own"});
  recorder.events.clear();
  training->run_step(toy_micro_batches(3));
  std::vector<std::string> units;
  for (const weft_unit* unit : training->bindings().own_units()) units.push_back(unit->unit->name());
  EXPECT_EQ(order_of(recorder, units), world.rank() == 0 ? "FFFBBB" : "FBFBFB");
  EXPECT_ERROR(training->run_step(toy_micro_batches(2)), WEFT_INVALID_ARGUMENT,
               "schedule_file own is the schedule of a whole step with 3 micro-batches, but this step has 2");
}

// On 1 rank no boundary is between ranks. On 2 ranks each one is under interleaved, but not the turn of zbv,
// whose first and last units are on one stage.
TEST(PipelineChunks, HaveTheGradientsOfOneRank) {
  const std::vector<int64_t> counts = {1, 2, 5};
  std::vector<std::pair<double, std::map<std::string, at::Tensor>>> expected;
  for (const int64_t count : counts) {
    const auto alone = make_single(make_toy("", at::kDouble));
    const double loss = alone->run_step(toy_micro_batches(count)).total();
    expected.emplace_back(loss, gradients_of(*alone));
  }
  on_ranks({1, 2}, [&](World& world) {
    for (size_t i = 0; i < counts.size(); ++i) {
      for (const char* style : {"interleaved", "zbv"}) {
        SCOPED_TRACE(fmt::format("{} {}", style, counts[i]));
        Recorder recorder;
        const auto training = make_stages(
            world, recorder, {.size = static_cast<uint32_t>(world.size()), .style = style, .chunks = 2});
        const at::Tensor loss =
            at::tensor({training->run_step(toy_micro_batches(counts[i])).total()}, at::kDouble);
        world.communicator().all_reduce(loss).wait();
        EXPECT_NEAR(loss.item<double>(), expected[i].first, 1e-12);
        for (const auto& [name, gradient] : gradients_of(*training)) {
          if (!expected[i].second.at(name).defined()) continue;
          EXPECT_TRUE(is_near(gradient, expected[i].second.at(name), kGradientFp64)) << name;
        }
      }
    }
    world.communicator().barrier();
  });
}

// Data-parallel ranks of 4 samples and of one: torch_ddp broadcasts buffers and compares the ranks in every
// micro-batch, so all ranks run as many, in a criterion's loss too.
TEST(PipelineStages, RunEquallyManyMicroBatchesOnRanksOfUnequalBatches) {
  const Batch batch = toy_batch(5, 1);
  const JobOptions on_one = {.precision = "fp64"};
  Job alone = boost(one_rank(), toy(on_one), on_one);
  const double first = alone.train_step(batch).loss, second = alone.train_step(batch).loss;
  const Criterion number = [](const State& outputs, const Batch& micro) {
    return outputs.at("logits").sum() * 0 + static_cast<double>(micro.samples());
  };
  on_ranks({4}, [&](World& world) {
    const JobOptions options = {.strategy = "torch_ddp",
                                .options = R"({"pp_size": 2, "microbatch_size": 1, "broadcast_buffers": true,
                                               "check_reduction": true, "find_unused_parameters": true})",
                                .precision = "fp64"};
    Job job = boost(world, toy(options), options);
    const int64_t rank = job.model.shared().bindings().mesh().data_rank();
    const Batch own = rank == 0 ? part_of(batch, 0, 4) : part_of(batch, 4, 5);
    EXPECT_NEAR(job.train_step(own).loss, first, 1e-12);
    EXPECT_NEAR(job.train_step(own).loss, second, 1e-9);
    job.optimizer.zero_grad();
    job.criterion = number;
    EXPECT_NEAR(job.accumulate_gradients(own), 1, 1e-12);  // every micro-batch that counts has one sample
    world.communicator().barrier();
  });
}

// Evaluates many micro-batches. Expects that a stage never has as much memory as half of the States that it
// sends, beside the outputs, which the last one keeps and joins.
void expect_few_states(const World& world, const PipelineOptions& pipeline) {
  constexpr int64_t kMicroBatches = 32, kSamples = 64, kPositions = 5, kWidth = 64;
  constexpr int64_t kState = kSamples * kPositions * kWidth * 8;  // bytes of the hidden field
  count_memory();
  Recorder recorder;
  const auto training =
      make_stages(world, recorder, pipeline, make_toy(R"("width": 64, "blocks": 4)", at::kDouble));
  const std::vector<Batch> batches = micro_batches(toy_batch(kMicroBatches * kSamples, 3), kMicroBatches, {});
  const int64_t before = allocated_bytes();
  reset_peak_allocated_bytes();
  const State outputs = training->run_forward(batches).outputs;
  int64_t bytes_of_outputs = 0;
  for (const auto& [name, tensor] : outputs) bytes_of_outputs += static_cast<int64_t>(tensor.nbytes());
  const bool is_last = world.rank() + 1 == world.size();
  const int64_t sent = kMicroBatches * (pipeline.chunks - (is_last ? 1 : 0)) * kState;
  if (sent > 0) EXPECT_LT(peak_allocated_bytes() - before - 2 * bytes_of_outputs, sent / 2);
}

// With one chunk on each stage, nothing comes back in an evaluation that would show what has arrived.
WEFT_RANKS_TEST(PipelineStages, KeepFewOfTheStatesThatTheySendInAnEvaluation, 2) {
  expect_few_states(world, {.size = 2});
}

// Nothing comes back from the next stage, but from the last one.
WEFT_RANKS_TEST(PipelineStages, KeepFewOfTheStatesThatTheySendInAnEvaluationOfChunks, 3) {
  expect_few_states(world, {.size = 3, .style = "interleaved", .chunks = 2});
}

WEFT_RANKS_TEST(PipelineStages, RefuseALoopOfTheCallersOwn, 2) {
  const JobOptions options = {.strategy = "torch_ddp", .options = R"({"pp_size": 2})"};
  Job job = boost(world, toy(options, R"("gated": false)"), options);
  EXPECT_ERROR(job.model(toy_batch(2, 1)), WEFT_FAILED_PRECONDITION, "torch_ddp", "pp_size is 2",
               "execute_pipeline", "train_step");
  Booster booster(BoosterOptions{.strategy = "torch_ddp"}, world);
  EXPECT_ERROR(booster.backward(at::ones({}), job.optimizer), WEFT_FAILED_PRECONDITION, "backward of a loss",
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
    EXPECT_ERROR(training->run_step(batches), WEFT_FAILED_PRECONDITION,
                 "ToyModel: the stages of a pipeline must have the same batch, but in micro-batch 0 ", text);
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
                 "waiting for the State of micro-batch 0 from stage 0");
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
      EXPECT_ERROR(training->run_step(batches), WEFT_INTERNAL, "the field \"" + field + "\"",
                   "passes to the next pipeline stage", text);
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
  expect_refusal_to_pass(says(Says::kOneFieldMore), batch_of_ones(), "y", "does not exist");
  expect_refusal_to_pass(says(Says::kUnchanged), batch_of_ones(), "x", "is not that of the batch any more");
  expect_refusal_to_pass(says(Says::kWithoutGradient), batch_of_ones(), "x",
                         "needs a gradient, but boundary() of the model says that it is not differentiable");
  // Its boundary() does not list this field, which a block reads if it is there.
  expect_refusal_to_pass([] { return make_toy("", at::kDouble); }, {with(toy_batch(2, 1), "cut", 1)}, "cut",
                         "is none of those that boundary() of the model lists");
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
      EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    });
    for (size_t rank = 0; rank < outcomes.size(); ++rank)
      EXPECT_EQ(outcomes[rank].passed, rank != 1)
          << rank << ": " << outcomes[rank].how << outcomes[rank].output;
  }
}

}  // namespace

}  // namespace weft::test
