#include "optim/loss_scaler.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::optim {
namespace {

LossScalerOptions small() {
  LossScalerOptions options;
  options.initial_scale = 16;
  options.max_scale = 32;
  options.growth_interval = 3;
  return options;
}

TEST(LossScaler, RefusesValuesThatMakeNoScale) {
  const auto with = [](auto change) {
    LossScalerOptions options = small();
    change(options);
    return options;
  };
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.min_scale = 0; })), WEFT_INVALID_ARGUMENT, "min_scale is 0");
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.initial_scale = 64; })), WEFT_INVALID_ARGUMENT,
               "initial_scale is 64", "from min_scale to max_scale");
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.growth_factor = 1; })), WEFT_INVALID_ARGUMENT,
               "growth_factor is 1", "above 1");
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.backoff_factor = 1; })), WEFT_INVALID_ARGUMENT,
               "backoff_factor is 1");
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.growth_interval = 0; })), WEFT_INVALID_ARGUMENT,
               "growth_interval is 0");
  EXPECT_ERROR(LossScaler(with([](auto& o) { o.hysteresis = 0; })), WEFT_INVALID_ARGUMENT, "hysteresis is 0");
}

TEST(LossScaler, GrowsAfterAnIntervalWithoutOverflowUpToItsLargest) {
  LossScaler scaler(small());
  for (const double expected : {16., 16., 32., 32., 32., 32.}) {
    scaler.update(false);
    EXPECT_EQ(scaler.scale(), expected);
  }
}

TEST(LossScaler, BacksOffFromTheSecondOverflowOn) {
  LossScaler scaler(small());
  for (const double expected : {16., 8., 4., 2., 1., 1.}) {
    scaler.update(true);
    EXPECT_EQ(scaler.scale(), expected);
  }
}

TEST(LossScaler, CountsOverflowsUntilItGrowsAndStepsSinceTheLastOverflow) {
  LossScaler scaler(small());
  const bool overflows[] = {true, false, false, true, false, false, false, true, true};
  const double scales[] = {16, 16, 16, 8, 8, 8, 16, 16, 8};
  for (int i = 0; i < 9; ++i) {
    scaler.update(overflows[i]);
    EXPECT_EQ(scaler.scale(), scales[i]) << "update " << i;
  }
}

TEST(LossScaler, AHysteresisOfOneIsPyTorchsRule) {
  LossScalerOptions options = small();
  options.hysteresis = 1;
  LossScaler scaler(options);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, GoesOnFromASavedState) {
  LossScaler scaler(small()), other(small());
  EXPECT_ERROR(other.restore({{"scale", "much"}}), WEFT_INVALID_ARGUMENT, "\"scale\"", "much");
  EXPECT_ERROR(other.restore({{"scale", 4}}), WEFT_INVALID_ARGUMENT, "\"growth_steps\"");
  for (const bool overflow : {true, false, false}) scaler.update(overflow);
  other.restore(scaler.state());
  for (LossScaler* each : {&scaler, &other}) each->update(false);
  EXPECT_EQ(other.scale(), 32);
  EXPECT_EQ(other.state(), scaler.state());
}

}  // namespace
}  // namespace weft::optim
