// What the host's pipeline does with a step: the order of the hooks, chunks and micro-batches.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "device/counting_allocator.hpp"
#include "schedule/text.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"
#include "train/training/staged.hpp"
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
  EXPECT_ERROR(training->run_step(toy_micro_batches(2)), WEFT_INVALID_ARGUMENT, "schedule_file own",
               "3 micro-batches", "step has 2");
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

}  // namespace

}  // namespace weft::test
