// Schedules with split backwards and a V, as the host runs them: the order of hooks, gradients and transfers,
// and the gradients of one rank.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/nn/layers.hpp>
#include <weft/world.hpp>

#include <cmath>
#include <memory>
#include <set>

#include "schedule/simulate.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
#include "train/training/recorder.hpp"
#include "training/micro_batches.hpp"
#include "training/stages.hpp"

namespace weft::test {

namespace {

using pipeline::Kind;
using pipeline::Operation;

constexpr uint32_t kMicroBatches = 8;
constexpr const char* kToy = R"("blocks": 6, "gated": false)";  // 8 units

// A training of the toy model in fp64 on ranks that are all stages of a V.
class Vee {
 public:
  explicit Vee(const World& world, const std::string& keys = kToy, const std::string& recompute = "off")
      : schedule(stage_schedule(stages_of(world), kMicroBatches)),
        stage(static_cast<uint32_t>(world.rank())) {
    recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[axis::kData] = 1; };
    TrainingOptions options;
    options.host.pipeline = stages_of(world);
    options.booster.recompute = recompute;
    training = make_training(world, make_toy(keys, at::kDouble), recorder, options);
    recorder.events.clear();
  }
  const std::vector<Operation>& operations() const { return schedule.operations[stage]; }
  // Returns the names of the units of a chunk.
  std::vector<std::string> units(uint32_t chunk) const {
    const Bindings& bindings = training->bindings();
    const uint32_t v = schedule.virtual_stage(stage, chunk);
    std::vector<std::string> names;
    for (uint32_t unit = bindings.stages().begin(v); unit < bindings.stages().end(v); ++unit)
      names.push_back(bindings.units()[unit]->unit->name());
    return names;
  }

  const pipeline::Schedule schedule;
  const uint32_t stage;
  Recorder recorder;
  std::shared_ptr<Training> training;

 private:
  static PipelineOptions stages_of(const World& world) {
    return {.size = static_cast<uint32_t>(world.size()), .style = "zbv", .chunks = 2};
  }
};

std::vector<Batch> batches() {
  return micro_batches(toy_batch(2 * kMicroBatches + 1, 3, false), kMicroBatches, {});
}

// Stage 0 has the first and the last unit, and so the parameter that both use for itself.
WEFT_RANKS_TEST(SplitBackwards, RunOnStagesInAVee, 2, 4) {
  Vee vee(world);
  const Bindings& bindings = vee.training->bindings();
  const bool first = vee.stage == 0;
  EXPECT_EQ(bindings.runs_here(*bindings.units().front()), first);
  EXPECT_EQ(bindings.runs_here(*bindings.units().back()), first);
  const weft_param* const tied = bindings.find_param("head.weight");
  EXPECT_EQ(tied->here, first);
  EXPECT_FALSE(tied->across_stages);
  std::vector<std::string> own = vee.units(0);
  for (const std::string& unit : vee.units(1)) own.push_back(unit);
  std::vector<std::string> seen;
  for (const weft_unit* unit : bindings.own_units()) seen.push_back(unit->unit->name());
  EXPECT_EQ(seen, own);
}

WEFT_RANKS_TEST(SplitBackwards, HaveTheHooksOfTwoBackwards, 2, 4) {
  Vee vee(world);
  vee.training->run_step(batches());
  std::vector<std::string> expected;
  for (const Operation& operation : vee.operations()) {
    const std::vector<std::string> units = vee.units(operation.chunk);
    if (operation.kind == Kind::forward) {
      for (const std::string& unit : units)
        for (const char* hook : {"before_forward ", "after_forward "}) expected.push_back(hook + unit);
      continue;
    }
    const bool last = &operation == &vee.operations().back();
    const std::string which = fmt::format("_backward {} of {}{}", operation.micro_batch, kMicroBatches,
                                          last ? " synchronised" : "");
    expected.push_back("begin" + which);
    for (const std::string& event : backward_events(units)) expected.push_back(event);
    expected.push_back("end" + which);
  }
  EXPECT_EQ(vee.recorder.without_gradients(), expected);
  EXPECT_EQ(vee.operations().back().kind, Kind::weight_gradient);
  EXPECT_LE(peak_live(vee.schedule, vee.stage), 2u * static_cast<uint32_t>(world.size()));
}

// Returns the parameters of a unit of the toy model whose gradients one half of a backward computes.
std::vector<std::string> computed_in(Kind half, const std::string& unit) {
  const bool first = half == Kind::input_gradient;
  if (unit == "embed") return first ? std::vector<std::string>{"wte.weight"} : std::vector<std::string>();
  if (unit == "head") return first ? std::vector<std::string>() : std::vector<std::string>{"wte.weight"};
  const std::string layer = unit + (first ? ".norm" : ".linear");
  return {layer + ".weight", layer + ".bias"};
}

// Each gradient is ready once, in the half that computes it: the tied one in both chunks of stage 0.
WEFT_RANKS_TEST(SplitBackwards, LeaveTheGradientsOfLinearLayersToTheSecondHalf, 2, 4) {
  for (const char* recompute : {"off", "all"}) {
    SCOPED_TRACE(recompute);
    Vee vee(world, kToy, recompute);
    vee.training->run_step(batches());
    std::vector<std::multiset<std::string>> ready;  // of each half
    for (const std::string& event : vee.recorder.events) {
      if (event.starts_with("begin_backward")) ready.emplace_back();
      if (event.starts_with("gradient_ready ")) ready.back().insert(event.substr(15));
    }
    size_t half = 0;
    for (const Operation& operation : vee.operations()) {
      if (operation.kind == Kind::forward) continue;
      std::multiset<std::string> expected;
      for (const std::string& unit : vee.units(operation.chunk))
        for (const std::string& name : computed_in(operation.kind, unit)) expected.insert(name);
      ASSERT_LT(half, ready.size());
      EXPECT_EQ(ready[half++], expected) << pipeline::name_of(operation, 2);
    }
    EXPECT_EQ(half, ready.size());
  }
}

// When a half begins, all that earlier operations send is on its way: so is the input gradient of a micro-
// batch before its weight gradient begins. The turn of the V sends nothing.
WEFT_RANKS_TEST(SplitBackwards, SendInputGradientsBeforeWeightGradients, 2, 4) {
  constexpr int64_t kPositions = 5, kWidth = 6, kSize = 8;
  Vee vee(world);
  std::vector<int64_t> sent;  // when a half begins
  vee.recorder.on_event = [&](const std::string& event) {
    if (event.starts_with("begin_backward")) sent.push_back(communicated_bytes().at("send"));
  };
  const int64_t before = communicated_bytes().at("send");
  const std::vector<Batch> micro = batches();
  vee.training->run_step(micro);
  int64_t expected = 0;
  size_t half = 0;
  for (const Operation& operation : vee.operations()) {
    if (operation.kind != Kind::forward) {
      ASSERT_LT(half, sent.size());
      EXPECT_EQ(sent[half++] - before, expected) << pipeline::name_of(operation, 2);
    }
    if (!send_of(vee.schedule, vee.stage, operation)) continue;
    const int64_t fields = operation.kind == Kind::forward ? kWidth + 1 : kWidth;  // with the kinds
    expected += micro[operation.micro_batch].samples() * kPositions * fields * kSize;
  }
  EXPECT_EQ(communicated_bytes().at("send") - before, expected);
}

// With recomputation, auxiliary losses and frozen units.
TEST(SplitBackwards, HaveTheGradientsOfOneRank) {
  struct Variant {
    std::string keys, recompute;
  };
  const std::string toy = kToy;
  const std::vector<Variant> variants = {{toy, "off"},
                                         {toy, "all"},
                                         {toy + R"(, "balance": 0.1)", "3"},
                                         {toy + R"(, "frozen": 3)", "off"},
                                         {toy + R"(, "frozen": 3)", "all"}};
  std::vector<std::pair<double, std::map<std::string, at::Tensor>>> expected;
  for (const Variant& variant : variants) {
    const auto alone = make_single(make_toy(variant.keys, at::kDouble));
    const double loss = alone->run_step(batches()).total();
    expected.emplace_back(loss, gradients_of(*alone));
  }
  on_ranks({1, 2, 4}, [&](World& world) {
    for (size_t i = 0; i < variants.size(); ++i) {
      SCOPED_TRACE(variants[i].keys + " " + variants[i].recompute);
      Vee vee(world, variants[i].keys, variants[i].recompute);
      const at::Tensor loss = at::tensor({vee.training->run_step(batches()).total()}, at::kDouble);
      world.communicator().all_reduce(loss).wait();
      EXPECT_NEAR(loss.item<double>(), expected[i].first, 1e-12 * std::abs(expected[i].first));
      for (const auto& [name, gradient] : gradients_of(*vee.training)) {
        const at::Tensor& of_one = expected[i].second.at(name);
        ASSERT_EQ(gradient.defined(), of_one.defined()) << name;
        if (gradient.defined()) EXPECT_TRUE(is_near(gradient, of_one, kGradientFp64)) << name;
      }
    }
    world.communicator().barrier();
  });
}

// Eight blocks x + tanh(W x + b), of which two on different stages of a V have the same W and b.
class SharedLayer final : public nn::Model {
 public:
  SharedLayer() : Model(Config()) {
    std::shared_ptr<nn::Linear> shared;
    for (const int block : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const std::string name = "block" + std::to_string(block);
      const std::shared_ptr<nn::Linear> layer =
          block == 3 ? shared : register_module(name, std::make_shared<nn::Linear>(4, 4, true, at::kDouble));
      if (block == 1) shared = layer;
      units_.push_back(nn::make_unit(name, {layer.get()}, [l = layer.get()](State& state) {
        state.set("x", state.at("x") + (*l)(state.at("x")).tanh());
      }));
    }
  }
  std::string architecture() const override { return "SharedLayer"; }
  std::vector<nn::Unit*> units() override {
    std::vector<nn::Unit*> units;
    for (const auto& unit : units_) units.push_back(unit.get());
    return units;
  }
  State input(const Batch& batch) const override { return {{"x", batch.at("x")}}; }
  std::vector<nn::LossTerm> loss(const State& last, const Batch&) const override {
    return {{"loss", 1, last.at("x").square().sum()}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    return {{"loss", static_cast<double>(batch.at("x").size(0))}};
  }
  State outputs(const State& last) const override { return last; }
  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override {
    return {{"x", batch.at("x").sizes().vec(), at::kDouble, index > 0}};
  }
  nn::Initial initial(std::string_view) const override { return nn::Initial::normal(0, 0.4); }

 private:
  std::vector<std::unique_ptr<nn::Unit>> units_;
};

// Both stages leave their gradients of the layer to second halves, and get the sum in the last one.
TEST(SplitBackwards, SumTheGradientsOfALayerThatStagesShare) {
  at::manual_seed(5);
  std::vector<Batch> batches;
  for (const int64_t samples : {2, 3, 1, 2, 2})
    batches.push_back(Batch{{"x", at::randn({samples, 4}, at::kDouble)}});
  const auto alone = make_single(std::make_shared<SharedLayer>());
  alone->run_step(batches);
  const auto expected = gradients_of(*alone);
  on_ranks({2}, [&](World& world) {
    for (const char* recompute : {"off", "all"}) {
      SCOPED_TRACE(recompute);
      Recorder recorder;
      recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[axis::kData] = 1; };
      TrainingOptions options;
      options.host.pipeline = {.size = 2, .style = "zbv", .chunks = 2};
      options.booster.recompute = recompute;
      const auto training = make_training(world, std::make_shared<SharedLayer>(), recorder, options);
      ASSERT_TRUE(training->bindings().find_param("block1.weight")->across_stages);
      recorder.events.clear();
      training->run_step(batches);
      EXPECT_EQ(recorder.of("gradient_ready block1").size(), 2u);
      // After all other hooks of the synchronising half.
      const std::vector<std::string>& events = recorder.events;
      ASSERT_GT(events.size(), 3u);
      EXPECT_EQ(std::vector<std::string>(events.end() - 3, events.end()),
                (std::vector<std::string>{"gradient_ready block1.weight", "gradient_ready block1.bias",
                                          "end_backward 4 of 5 synchronised"}));
      for (const auto& [name, gradient] : gradients_of(*training))
        EXPECT_TRUE(is_near(gradient, expected.at(name), kGradientFp64)) << name;
    }
    world.communicator().barrier();
  });
}

WEFT_RANKS_TEST(SplitBackwards, AddUpOverSteps, 2) {
  Vee vee(world);
  vee.training->run_step(batches());
  const auto once = gradients_of(*vee.training);
  vee.training->run_step(batches());
  for (const auto& [name, gradient] : gradients_of(*vee.training))
    EXPECT_TRUE(is_near(gradient, once.at(name) * 2, kGradientFp64)) << name;
}

}  // namespace

}  // namespace weft::test
