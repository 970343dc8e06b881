// How units are divided into stages, against all possible divisions.
#include "schedule/stage_division.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <string>

#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using pipeline::divide_layers;
using pipeline::divide_units;
using pipeline::StageDivision;
using Begins = std::vector<uint32_t>;

struct Quality {
  double largest = 0, squares = 0;
};

Quality quality_of(const std::vector<double>& costs, const StageDivision& division) {
  Quality quality;
  for (uint32_t stage = 0; stage < division.virtual_stages(); ++stage) {
    double cost = 0;
    for (uint32_t unit = division.begin(stage); unit < division.end(stage); ++unit) cost += costs[unit];
    quality.largest = std::max(quality.largest, cost);
    quality.squares += cost * cost;
  }
  return quality;
}

Quality best_of_all(const std::vector<double>& costs, uint32_t stages) {
  const auto units = static_cast<uint32_t>(costs.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Quality best{kInfinity, kInfinity};
  for (uint32_t cuts = 0; cuts < 1u << (units - 1); ++cuts) {
    if (std::popcount(cuts) != static_cast<int>(stages) - 1) continue;
    StageDivision division{{0}};
    for (uint32_t unit = 1; unit < units; ++unit)
      if ((cuts >> (unit - 1) & 1) != 0) division.begins.push_back(unit);
    division.begins.push_back(units);
    const Quality found = quality_of(costs, division);
    if (found.largest < best.largest || (found.largest == best.largest && found.squares < best.squares))
      best = found;
  }
  return best;
}

TEST(StageDivision, RefusesFewerUnitsThanStages) {
  EXPECT_ERROR(divide_units({1, 1}, 3), WEFT_INVALID_ARGUMENT, "2 units cannot be divided into 3 stages");
  EXPECT_ERROR(divide_units({1, 1}, 0), WEFT_INVALID_ARGUMENT, "into 0 stages");
}

TEST(StageDivision, IsTheBestOfAll) {
  std::mt19937 random(7);  // NOLINT: a fixed seed
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> costs(1 + random() % 9);
    for (double& cost : costs) cost = static_cast<double>(random() % 6);  // small numbers, so that sums tie
    for (uint32_t stages = 1; stages <= costs.size(); ++stages) {
      const StageDivision division = divide_units(costs, stages);
      ASSERT_EQ(division.virtual_stages(), stages);
      ASSERT_EQ(division.begins.front(), 0u);
      ASSERT_EQ(division.begins.back(), costs.size());
      for (uint32_t stage = 0; stage < stages; ++stage) {
        ASSERT_LT(division.begin(stage), division.end(stage));
        for (uint32_t unit = division.begin(stage); unit < division.end(stage); ++unit)
          ASSERT_EQ(division.stage_of_unit(unit), stage);
      }
      const Quality found = quality_of(costs, division), best = best_of_all(costs, stages);
      EXPECT_EQ(found.largest, best.largest);
      EXPECT_EQ(found.squares, best.squares);
    }
  }
}

TEST(StageDivision, GivesAnExpensiveHeadFewerBlocks) {
  EXPECT_EQ(divide_units({0, 7, 7, 7, 7, 14}, 2).begins, (Begins{0, 4, 6}));
  EXPECT_EQ(divide_units({0, 7, 7, 7, 7, 14}, 3).begins, (Begins{0, 3, 5, 6}));
}

// Units as letters: L for a layer, x for any other.
std::vector<bool> layers(const std::string& units) {
  std::vector<bool> is_layer;
  for (const char unit : units) is_layer.push_back(unit == 'L');
  return is_layer;
}

TEST(LayersPerStage, RefuseWhatDoesNotAddUp) {
  EXPECT_ERROR(divide_layers(layers("xLLLLx"), {2, 1}), WEFT_INVALID_ARGUMENT,
               "num_layers_per_stage is [2, 1], 3 layers together, but the model has 4");
  EXPECT_ERROR(divide_layers(layers("xLLLLx"), {2, 3}), WEFT_INVALID_ARGUMENT, "5 layers together");
  EXPECT_ERROR(divide_layers(layers("LL"), {4294967295, 3}), WEFT_INVALID_ARGUMENT, "4294967298 layers");
  EXPECT_ERROR(divide_layers(layers("xx"), {1, 1}), WEFT_INVALID_ARGUMENT, "the model has 0");
}

TEST(LayersPerStage, RefuseAStageWithoutUnits) {
  const auto refused = [](const char* units, const std::vector<uint32_t>& counts, const char* stage) {
    EXPECT_ERROR(divide_layers(layers(units), counts), WEFT_INVALID_ARGUMENT, "num_layers_per_stage is [",
                 std::string("leaves ") + stage + " without any unit");
  };
  refused("xLLLLx", {2, 0, 2}, "stage 1 of 3");
  refused("xLLx", {2, 0, 0}, "stage 1 of 3");
  refused("xLLx", {0, 0, 2}, "stage 1 of 3");
  refused("LLx", {0, 2}, "stage 0 of 2");
  refused("xLL", {2, 0}, "stage 1 of 2");
}

TEST(LayersPerStage, AreThoseOfTheOption) {
  EXPECT_EQ(divide_layers(layers("xLLLLx"), {3, 1}).begins, (Begins{0, 4, 6}));
  EXPECT_EQ(divide_layers(layers("xLLLLx"), {4}).begins, (Begins{0, 6}));
  EXPECT_EQ(divide_layers(layers("LLLL"), {1, 2, 1}).begins, (Begins{0, 1, 3, 4}));
}

TEST(LayersPerStage, MayBeNoneWhereOtherUnitsAre) {
  EXPECT_EQ(divide_layers(layers("xLLLLxx"), {0, 2, 2, 0}).begins, (Begins{0, 1, 3, 5, 7}));
  EXPECT_EQ(divide_layers(layers("xLLx"), {2, 0}).begins, (Begins{0, 3, 4}));
}

TEST(LayersPerStage, KeepWhatEndsAnEncoderWithItsLastLayer) {
  EXPECT_EQ(divide_layers(layers("xLLxLLx"), {2, 2}).begins, (Begins{0, 4, 7}));
  EXPECT_EQ(divide_layers(layers("xLLxLLx"), {1, 2, 1}).begins, (Begins{0, 2, 5, 7}));
}

}  // namespace

}  // namespace weft::test
