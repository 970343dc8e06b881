// What is known of each style of schedule: its order, its bubble and the activations that it keeps.
#include "schedule/make.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "schedule/check.hpp"
#include "schedule/text.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using namespace pipeline;

uint32_t most_live(const Schedule& schedule) {
  uint32_t most = 0;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage)
    most = std::max(most, peak_live(schedule, stage));
  return most;
}

Simulation simulate_equal(const Schedule& schedule, StageCosts each = {}) {
  return simulate(schedule, Costs::equal(schedule.virtual_stages(), each));
}

TEST(MakeSchedule, RefusesAnUnknownStyle) {
  EXPECT_ERROR(make_schedule({"interleave", 2, 2, 2}), WEFT_INVALID_ARGUMENT, "pp_style is \"interleave\"",
               "did you mean \"interleaved\"?", "1f1b, interleaved, zbh1, zbv, gpipe");
}

TEST(MakeSchedule, RefusesNoStagesMicroBatchesOrChunks) {
  EXPECT_ERROR(make_schedule({"1f1b", 0, 1, 1}), WEFT_INVALID_ARGUMENT, "pp_size is 0", "at least 1");
  EXPECT_ERROR(make_schedule({"gpipe", 1, 0, 1}), WEFT_INVALID_ARGUMENT, "num_microbatches is 0");
  EXPECT_ERROR(make_schedule({"zbv", 1, 1, 0}), WEFT_INVALID_ARGUMENT, "num_model_chunks is 0");
}

TEST(MakeSchedule, RefusesChunksThatTheStyleDoesNotTake) {
  EXPECT_ERROR(make_schedule({"1f1b", 2, 4, 2}), WEFT_INVALID_ARGUMENT, "exactly 1 model chunk a stage",
               "num_model_chunks is 2", "set it to 1, or pp_style to interleaved");
  EXPECT_ERROR(make_schedule({"interleaved", 2, 4, 1}), WEFT_INVALID_ARGUMENT,
               "at least 2 model chunks a stage", "num_model_chunks is 1",
               "set it to 2, or pp_style to 1f1b");
  EXPECT_ERROR(make_schedule({"zbv", 2, 4, 3}), WEFT_INVALID_ARGUMENT, "exactly 2 model chunks",
               "num_model_chunks is 3");
}

TEST(MakeSchedule, RefusesMoreOperationsThanFitInMemory) {
  EXPECT_ERROR(make_schedule({"1f1b", 4, 4000000000, 1}), WEFT_INVALID_ARGUMENT,
               "num_microbatches 4000000000", "use larger micro-batches");
  EXPECT_ERROR(make_schedule({"interleaved", 4000000000, 1, 4000000000}), WEFT_INVALID_ARGUMENT,
               "pp_size 4000000000");
}

TEST(MakeSchedule, RefusesCostsThatDoNotFit) {
  EXPECT_ERROR(make_schedule({"zbv", 4, 8, 2, Costs::equal(4)}), WEFT_INVALID_ARGUMENT,
               "costs for 4 virtual stages", "has 8");
  EXPECT_ERROR(make_schedule({"zbv", 1, 8, 2, Costs::equal(2, {1, -1, 1})}), WEFT_INVALID_ARGUMENT,
               "an input gradient is -1", "must be from 0 to 1e+30");
  EXPECT_ERROR(make_schedule({"zbv", 1, 8, 2, Costs::equal(2, {}, std::numeric_limits<double>::quiet_NaN())}),
               WEFT_INVALID_ARGUMENT, "a transfer is nan");
}

TEST(MakeSchedule, MakesEachStyle) {
  for (const Style& style : styles()) {
    EXPECT_EQ(find_style(style.name).summary, style.summary);
    const Schedule schedule = make_schedule({std::string(style.name), 3, 7, style.fewest_chunks});
    EXPECT_TRUE(problems(schedule).empty()) << style.name << ": " << problems(schedule).front();
    EXPECT_EQ(schedule.placement, style.placement);
  }
}

TEST(GPipe, RunsAllForwardsFirst) {
  EXPECT_EQ(rows(make_schedule({"gpipe", 2, 3, 1})), "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
}

TEST(GPipe, KeepsAllMicroBatchesAndHasTheBubbleOf1F1B) {
  const Schedule schedule = make_schedule({"gpipe", 4, 6, 1});
  EXPECT_EQ(most_live(schedule), 6);
  EXPECT_NEAR(simulate_equal(schedule).bubble(), 3. / (6 + 3), 1e-12);
}

TEST(OneForwardOneBackward, AlternatesAfterTheWarmUp) {
  EXPECT_EQ(rows(make_schedule({"1f1b", 3, 4, 1})),
            "F0 F1 F2 B0 F3 B1 B2 B3\n"
            "F0 F1 B0 F2 B1 F3 B2 B3\n"
            "F0 B0 F1 B1 F2 B2 F3 B3\n");
}

TEST(OneForwardOneBackward, KeepsOneMicroBatchForEachStageThatFollows) {
  for (uint32_t p = 1; p <= 8; ++p) {
    for (uint32_t m = 1; m <= 20; ++m) {
      const Schedule schedule = make_schedule({"1f1b", p, m, 1});
      for (uint32_t stage = 0; stage < p; ++stage)
        EXPECT_EQ(peak_live(schedule, stage), std::min(m, p - stage)) << p << " stages, " << m;
      const Simulation times = simulate_equal(schedule, {1, 1.25, 0.75});
      EXPECT_NEAR(times.bubble(), (p - 1.) / (m + p - 1.), 1e-12) << p << " stages, " << m;
    }
  }
}

TEST(Interleaved, PassesTheChunksInGroups) {
  EXPECT_EQ(rows(make_schedule({"interleaved", 2, 2, 2})),
            "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\n"
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0\n");
}

// The formula is known where p divides m. Groups that are a little larger than p keep it for every m >= p.
TEST(Interleaved, DividesTheBubbleByTheNumberOfChunks) {
  for (uint32_t p = 1; p <= 8; ++p) {
    for (uint32_t v = 2; v <= 4; ++v) {
      for (uint32_t m = p; m <= 4 * p + 1; ++m) {
        const Schedule schedule = make_schedule({"interleaved", p, m, v});
        const uint32_t groups = m / p, group = (m + groups - 1) / groups;
        for (uint32_t stage = 0; stage < p; ++stage)
          EXPECT_LE(peak_live(schedule, stage), std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * group + 1));
        const Simulation times = simulate_equal(schedule, {1, 1.25, 0.75});
        EXPECT_NEAR(times.bubble(), (p - 1.) / (v * m + p - 1.), 1e-12) << p << " stages, " << v << ", " << m;
      }
    }
  }
}

TEST(Interleaved, RunsFewerMicroBatchesThanStages) {
  for (uint32_t p = 2; p <= 12; ++p)
    for (uint32_t v = 2; v <= 5; ++v)
      for (uint32_t m = 1; m < p; ++m)
        EXPECT_NO_THROW(check(make_schedule({"interleaved", p, m, v}))) << p << " stages, " << v << ", " << m;
}

TEST(Zbh1, PutsTheWeightGradientsOfLaterStagesOff) {
  EXPECT_EQ(rows(make_schedule({"zbh1", 2, 4, 1})),
            "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3\n"
            "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3\n");
}

TEST(Zbh1, WaitsAThirdAsLongAs1F1BAndKeepsNoMore) {
  for (uint32_t p = 1; p <= 12; ++p) {
    for (const uint32_t m : {p, p + 1, 2 * p, 3 * p + 2}) {
      const Schedule schedule = make_schedule({"zbh1", p, m, 1});
      const Simulation times = simulate_equal(schedule);
      EXPECT_EQ(times.makespan, 3 * m + p - 1) << p << " stages, " << m;
      EXPECT_NEAR(times.bubble(), (p - 1.) / (3. * m + p - 1.), 1e-12) << p << " stages, " << m;
      EXPECT_EQ(most_live(schedule), p) << p << " stages, " << m;
    }
  }
}

TEST(Zbv, HasNoIdleTimeInsideAStageIfAllOperationsCostTheSame) {
  for (uint32_t p = 1; p <= 12; ++p) {
    for (const uint32_t m : {2 * p, 2 * p + 1, 3 * p - 1, 3 * p, 5 * p + 3}) {
      const Schedule schedule = make_schedule({"zbv", p, m, 2});
      const Simulation times = simulate_equal(schedule);
      for (uint32_t stage = 0; stage < p; ++stage) EXPECT_EQ(times.stages[stage].idle(), 0) << p << ", " << m;
      EXPECT_EQ(times.makespan, 6 * m + p - 1) << p << " stages, " << m;
      EXPECT_LE(most_live(schedule), 2 * p) << p << " stages, " << m;
    }
  }
}

// Costs of 16 alike blocks, an embedding and a head: of `parts` virtual stages with as many blocks each.
Costs costs_of_blocks(uint32_t parts) {
  const double blocks = 16. / parts;
  Costs costs = Costs::equal(parts, {1.0 * blocks, 1.15 * blocks, 0.9 * blocks}, 0.05);
  costs.virtual_stages.front().forward += 0.1;
  costs.virtual_stages.front().weight_gradient += 0.2;
  StageCosts& last = costs.virtual_stages.back();
  last = {last.forward + 0.5, last.input_gradient + 0.4, last.weight_gradient + 0.4};
  return costs;
}

TEST(Zbv, IsFasterThan1F1B) {
  const Costs costs = costs_of_blocks(8);
  const Schedule zbv = make_schedule({"zbv", 4, 8, 2, costs});
  const Schedule plain = make_schedule({"1f1b", 4, 8, 1});
  EXPECT_GT(simulate(plain, costs_of_blocks(4)).makespan / simulate(zbv, costs).makespan, 1.15);
  EXPECT_LE(most_live(zbv), 8);
}

TEST(Transfers, AreNoneAtTheTurnOfTheV) {
  const Schedule schedule = make_schedule({"zbv", 3, 4, 2});
  EXPECT_EQ(send_of(schedule, 2, {Kind::forward, 0, 0}), std::nullopt);
  EXPECT_EQ(receive_of(schedule, 2, {Kind::forward, 0, 1}), std::nullopt);
  EXPECT_EQ(send_of(schedule, 2, {Kind::input_gradient, 0, 1}), std::nullopt);
  EXPECT_EQ(receive_of(schedule, 2, {Kind::input_gradient, 0, 0}), std::nullopt);
  const Transfer state = {Transfer::Content::state, 3, 3, 2, 1};
  EXPECT_EQ(send_of(schedule, 2, {Kind::forward, 3, 1}), state);
  EXPECT_EQ(receive_of(schedule, 1, {Kind::forward, 3, 1}), state);
  const Transfer gradients = {Transfer::Content::gradients, 3, 3, 1, 2};
  EXPECT_EQ(send_of(schedule, 1, {Kind::input_gradient, 3, 1}), gradients);
  EXPECT_EQ(receive_of(schedule, 2, {Kind::input_gradient, 3, 1}), gradients);
}

TEST(Transfers, GoFromTheLastStageToTheFirstInALoop) {
  const Schedule schedule = make_schedule({"interleaved", 2, 2, 2});
  const std::vector<Transfer> back = transfers(schedule, 1, 0);
  const auto state = [](uint32_t m) { return Transfer{Transfer::Content::state, m, 1, 1, 0}; };
  const auto gradients = [](uint32_t m, uint32_t boundary) {
    return Transfer{Transfer::Content::gradients, m, boundary, 1, 0};
  };
  EXPECT_EQ(back, (std::vector<Transfer>{state(0), state(1), gradients(0, 2), gradients(1, 2),
                                         gradients(0, 0), gradients(1, 0)}));
}

TEST(ForwardOnly, KeepsTheOrderOfForwards) {
  const Schedule schedule = forward_only(make_schedule({"zbv", 1, 2, 2}));
  EXPECT_EQ(rows(schedule), "F0.0 F0.1 F1.0 F1.1\n");
  EXPECT_TRUE(problems(schedule, Purpose::evaluation).empty());
}

}  // namespace

}  // namespace weft::test
