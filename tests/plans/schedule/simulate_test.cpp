// Times of schedules, and mistakes planted in them.
#include "schedule/simulate.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "schedule/check.hpp"
#include "schedule/make.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using namespace pipeline;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

// Expects exactly one problem, this one.
AssertionResult has_problem(const Schedule& schedule, const std::string& expected) {
  const std::vector<std::string> found = problems(schedule);
  if (found == std::vector<std::string>{expected}) return AssertionSuccess();
  return AssertionFailure() << "found " << testing::PrintToString(found);
}

Schedule two_stages() {
  return make_schedule({"1f1b", 2, 2, 1});  // F0 F1 B0 B1 | F0 B0 F1 B1
}

TEST(Simulate, GivesTheTimesOfEachOperation) {
  const Simulation times = simulate(two_stages(), {{{1, 1, 1}, {2, 1.5, 2.5}}, 0.5});
  const std::vector<std::vector<std::pair<double, double>>> expected = {
      {{0, 1}, {1, 2}, {8, 10}, {14, 16}}, {{1.5, 3.5}, {3.5, 7.5}, {7.5, 9.5}, {9.5, 13.5}}};
  for (size_t stage = 0; stage < 2; ++stage) {
    for (size_t index = 0; index < 4; ++index) {
      EXPECT_EQ(times.stages[stage].operations[index].begin, expected[stage][index].first);
      EXPECT_EQ(times.stages[stage].operations[index].end, expected[stage][index].second);
    }
  }
  EXPECT_EQ(times.makespan, 16);
  EXPECT_EQ(times.stages[0].idle(), 10);
  EXPECT_EQ(times.stages[1].idle(), 0);
  EXPECT_EQ(times.stages[1].span.begin, 1.5);
  EXPECT_DOUBLE_EQ(times.bubble(), 1 - (6. + 12.) / 32.);
}

TEST(Simulate, RefusesWhatCannotRun) {
  Schedule schedule = two_stages();
  EXPECT_ERROR(simulate(schedule, Costs::equal(4)), WEFT_INVALID_ARGUMENT, "costs for 4 virtual stages");
  schedule.operations[1][2].micro_batch = 7;
  EXPECT_ERROR(simulate(schedule, Costs::equal(2)), WEFT_INVALID_ARGUMENT, "F7", "there are 2 micro-batches");
  schedule = two_stages();
  std::swap(schedule.operations[0][1], schedule.operations[0][2]);
  std::swap(schedule.operations[1][1], schedule.operations[1][2]);
  EXPECT_ERROR(simulate(schedule, Costs::equal(2)), WEFT_INVALID_ARGUMENT, "stages wait for each other",
               "stage 0 waits at operation 1 (B0) for B0 of stage 1 (operation 2)",
               "stage 1 waits at operation 1 (F1) for F1 of stage 0 (operation 2)");
  schedule = two_stages();
  schedule.operations[0].erase(schedule.operations[0].begin() + 1);
  EXPECT_ERROR(simulate(schedule, Costs::equal(2)), WEFT_INVALID_ARGUMENT,
               "stage 0 waits at operation 2 (B1) for F1 of stage 0, which is not in its list");
}

TEST(PeakLive, CountsFromTheForwardToTheWeightGradient) {
  Schedule schedule{1, 2, 1, Placement::loop, {{}}};
  const auto peak = [&](std::vector<Operation> operations) {
    schedule.operations[0] = std::move(operations);
    return peak_live(schedule, 0);
  };
  EXPECT_EQ(peak({{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 1, 0}}), 1);
  EXPECT_EQ(peak({{Kind::forward, 0, 0}, {Kind::input_gradient, 0, 0}, {Kind::forward, 1, 0}}), 2);
  EXPECT_EQ(peak({{Kind::forward, 0, 0},
                  {Kind::input_gradient, 0, 0},
                  {Kind::weight_gradient, 0, 0},
                  {Kind::forward, 1, 0}}),
            1);
}

TEST(PeakLive, AddsUpTheSizesOfTheChunks) {
  const Schedule schedule{1,
                          2,
                          2,
                          Placement::loop,
                          {{{Kind::forward, 0, 0},
                            {Kind::forward, 1, 0},
                            {Kind::forward, 0, 1},
                            {Kind::backward, 0, 1},
                            {Kind::backward, 0, 0},
                            {Kind::forward, 1, 1},
                            {Kind::backward, 1, 1},
                            {Kind::backward, 1, 0}}}};
  EXPECT_EQ(peak_live(schedule, 0, {100, 1}, {0, 0}), 201);
  EXPECT_EQ(peak_live(schedule, 0, {1, 100}, {0, 0}), 102);
  EXPECT_EQ(peak_live(schedule, 0), 3);
}

TEST(PeakLive, CountsWhatASplitBackwardKeepsBetweenItsHalves) {
  const Schedule schedule{1,
                          2,
                          1,
                          Placement::loop,
                          {{{Kind::forward, 0, 0},
                            {Kind::input_gradient, 0, 0},
                            {Kind::forward, 1, 0},
                            {Kind::weight_gradient, 0, 0},
                            {Kind::input_gradient, 1, 0},
                            {Kind::weight_gradient, 1, 0}}}};
  EXPECT_EQ(peak_live(schedule, 0, {10}, {3}), 13);
  EXPECT_EQ(peak_live(schedule, 0, {1}, {30}), 31);
  EXPECT_EQ(peak_live(schedule, 0), 2);
}

TEST(Check, FindsStagesThatWaitForEachOther) {
  Schedule schedule = two_stages();
  std::swap(schedule.operations[0][1], schedule.operations[0][2]);
  EXPECT_TRUE(problems(schedule).empty());  // F0 B0 F1 B1 on both: slower, but right
  std::swap(schedule.operations[1][1], schedule.operations[1][2]);
  EXPECT_TRUE(
      has_problem(schedule,
                  "stages wait for each other: stage 0 waits at operation 1 (B0) for B0 of stage 1 "
                  "(operation 2); stage 1 waits at operation 1 (F1) for F1 of stage 0 (operation 2)"));
}

TEST(Check, FindsACircleThatOtherStagesOnlyWaitFor) {
  Schedule schedule = make_schedule({"1f1b", 4, 2, 1});
  std::swap(schedule.operations[2][1], schedule.operations[2][2]);  // F0 B0 F1 B1
  std::swap(schedule.operations[3][1], schedule.operations[3][2]);  // F0 F1 B0 B1
  EXPECT_TRUE(
      has_problem(schedule,
                  "stages wait for each other: stage 2 waits at operation 1 (B0) for B0 of stage 3 "
                  "(operation 2); stage 3 waits at operation 1 (F1) for F1 of stage 2 (operation 2)"));
}

TEST(Check, FindsOperationsBeforeWhatTheyNeed) {
  Schedule schedule = two_stages();
  std::swap(schedule.operations[1][0], schedule.operations[1][1]);
  EXPECT_TRUE(has_problem(schedule, "stage 1, operation 0, B0: its forward comes later or never"));
  Schedule split = make_schedule({"zbv", 1, 1, 2});  // F0.0 F0.1 I0.1 W0.1 I0.0 W0.0 or I0.1 I0.0 W0.1 W0.0
  std::vector<Operation>& operations = split.operations[0];
  operations = {{Kind::forward, 0, 0},        {Kind::forward, 0, 1},        {Kind::weight_gradient, 0, 1},
                {Kind::input_gradient, 0, 1}, {Kind::input_gradient, 0, 0}, {Kind::weight_gradient, 0, 0}};
  EXPECT_TRUE(has_problem(split, "stage 0, operation 2, W0.1: its input gradient comes later or never"));
}

TEST(Check, FindsMissingAndRepeatedOperations) {
  Schedule schedule = two_stages();
  schedule.operations[0].pop_back();
  EXPECT_TRUE(has_problem(schedule, "stage 0 never runs the backward of micro-batch 1"));
  schedule = two_stages();
  schedule.operations[1].push_back({Kind::forward, 1, 0});
  EXPECT_TRUE(has_problem(schedule, "stage 1, operation 4, F1: an earlier operation has done it"));
  schedule = two_stages();
  schedule.operations[1].push_back({Kind::weight_gradient, 1, 0});
  EXPECT_TRUE(has_problem(schedule, "stage 1, operation 4, W1: an earlier operation has done it"));
  schedule = two_stages();
  schedule.operations[1][3].kind = Kind::input_gradient;
  EXPECT_TRUE(has_problem(schedule, "stage 1 never runs the weight gradient of micro-batch 1"));
}

TEST(Check, FindsShapesThatDoNotFit) {
  Schedule schedule = two_stages();
  schedule.operations.pop_back();
  EXPECT_TRUE(has_problem(schedule, "it lists the operations of 1 stages, must list those of 2"));
  schedule = two_stages();
  schedule.operations[0][0].chunk = 1;
  EXPECT_TRUE(has_problem(schedule, "stage 0, operation 0, F0.1: there are 2 micro-batches and 1 chunks"));
  schedule.placement = Placement::vee;
  EXPECT_TRUE(has_problem(schedule, "it has 1 chunks, must have 2 to be placed in a V"));
  schedule.chunks = 0;
  EXPECT_TRUE(
      has_problem(schedule, "it has 2 stages, 2 micro-batches and 0 chunks, each must be at least 1"));
}

TEST(Check, RefusesBackwardsInAnEvaluation) {
  EXPECT_TRUE(problems(forward_only(two_stages()), Purpose::evaluation).empty());
  EXPECT_ERROR(check(two_stages(), "evaluate", Purpose::evaluation), WEFT_INVALID_ARGUMENT,
               "evaluate: stage 0, operation 2, B0: an evaluation has forwards only");
  EXPECT_FALSE(problems(forward_only(two_stages())).empty());
}

TEST(Check, ThrowsTheFirstProblems) {
  Schedule schedule = make_schedule({"gpipe", 2, 8, 1});
  for (auto& operations : schedule.operations) operations.clear();
  EXPECT_ERROR(check(schedule, "scheduler_nodes"), WEFT_INVALID_ARGUMENT,
               "scheduler_nodes: stage 0 never runs the forward of micro-batch 0; ", "and 27 more");
}

}  // namespace

}  // namespace weft::test
