// Schedules with split backwards and a V, as the host runs them: the order of hooks, gradients and transfers,
// and the gradients of one rank.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <weft/world.hpp>

#include <cmath>
#include <set>

#include "engine/training/recorder.hpp"
#include "schedule/simulate.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
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
    recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[WEFT_AXIS_DATA] = 1; };
    TrainingOptions options;
    options.pipeline = stages_of(world);
    options.recompute = recompute;
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
