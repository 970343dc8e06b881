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
  EXPECT_ERROR(State().at("labels"), WEFT_NOT_FOUND, "labels", "there are none");
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

}  // namespace
}  // namespace weft
