#include "weft/state.hpp"

#include <ATen/ATen.h>

#include "support/expect_error.hpp"

namespace weft {
namespace {

TEST(State, NamesTheFieldsThatAreThereWhenOneIsMissing) {
  const State state = {{"input_ids", at::ones({2})}, {"labels", at::zeros({2})}};
  EXPECT_EQ(state.find("label"), nullptr);
  EXPECT_ERROR(state.at("label"), WEFT_NOT_FOUND, "\"label\"", "did you mean \"labels\"",
               "input_ids, labels");
  EXPECT_ERROR(State().at("labels"), WEFT_NOT_FOUND, "labels", "are none");
}

TEST(State, KeepsItsOrderAndReplacesByName) {
  State state = {{"b", at::zeros({1})}, {"a", at::zeros({1})}};
  state.set("b", at::full({1}, 5));
  state.set("c", at::zeros({1}));
  state.erase("a");
  state.erase("absent");
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state.begin()->first, "b");
  EXPECT_EQ(state.at("b").item<int64_t>(), 5);
  EXPECT_TRUE(state.has("c"));
}

TEST(Batch, CountsTheSamplesOfAllItsFields) {
  EXPECT_ERROR(Batch().samples(), WEFT_INVALID_ARGUMENT, "no fields");
  const Batch uneven = {{"pixel_values", at::zeros({3, 2})}, {"labels", at::zeros({2})}};
  EXPECT_ERROR(uneven.samples(), WEFT_INVALID_ARGUMENT, "pixel_values has 3", "labels has 2");
  EXPECT_ERROR(Batch({{"labels", at::zeros({})}}).samples(), WEFT_INVALID_ARGUMENT, "labels has 0");
  const Batch even = {{"pixel_values", at::zeros({3, 2})}, {"labels", at::zeros({3})}};
  EXPECT_EQ(even.samples(), 3);
}

}  // namespace
}  // namespace weft
