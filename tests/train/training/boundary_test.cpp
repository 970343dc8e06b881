// Boundaries in the autograd graph: when backward calls their functions, and which of them need a node.
#include "autograd/boundary.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::test {
namespace {

class BoundaryTest : public testing::Test {
 protected:
  std::function<void()> call(const std::string& name) {
    return [this, name] { calls_.push_back(name); };
  }
  // Puts boundaries around `unit`, which replaces the tensors of the state.
  void run(const std::string& name, State& state, const std::function<void(State&)>& unit,
           const void* owner) {
    insert_boundary(state, UnitSide::kBefore, owner, call("end of " + name));
    unit(state);
    insert_boundary(state, UnitSide::kAfter, owner, call("begin of " + name));
  }
  void run(const std::string& name, State& state, const std::function<void(State&)>& unit = {}) {
    run(
        name, state, unit ? unit : [](State&) {}, this);
  }
  static bool is_boundary(const at::Tensor& tensor) {
    return tensor.grad_fn() != nullptr && tensor.grad_fn()->name() == "UnitBoundary";
  }
  static at::Tensor leaf() { return at::full({2}, 3.0, at::kDouble).set_requires_grad(true); }
  static void square(State& state) { state.set("x", state.at("x") * state.at("x")); }

  std::vector<std::string> calls_;
};
using Calls = std::vector<std::string>;

TEST_F(BoundaryTest, NeedsNoNodeBehindAUnitThatMadeOneTensor) {
  const at::Tensor input = leaf();
  State state = {{"x", input}};
  run("a", state, square);
  EXPECT_FALSE(is_boundary(state.at("x")));
  const at::Tensor between = state.at("x");
  run("b", state, square);
  EXPECT_FALSE(is_boundary(state.at("x")));
  // The tensor between has two readers, and backward calls once, after both.
  (state.at("x") + between).sum().backward();
  EXPECT_EQ(calls_, (Calls{"begin of b", "end of b", "begin of a", "end of a"}));
  EXPECT_TRUE(input.grad().equal(4 * input.detach().pow(3) + 2 * input.detach()));
}

TEST_F(BoundaryTest, CallsInReverseAroundUnitsThatPassTheirTensorsOn) {
  for (const bool made : {false, true}) {
    calls_.clear();
    State state = {{"x", leaf()}, {"ids", at::ones({2}, at::kLong)}};
    if (made) run("maker", state, square);
    run("a", state);
    run("b", state);
    EXPECT_EQ(is_boundary(state.at("x")), !made);
    state.at("x").sum().backward();
    Calls expected = {"begin of b", "end of b", "begin of a", "end of a"};
    if (made) expected.insert(expected.end(), {"begin of maker", "end of maker"});
    EXPECT_EQ(calls_, expected);
  }
}

TEST_F(BoundaryTest, IsOneNodeOverSeveralTensors) {
  State state = {{"x", leaf()}, {"y", leaf()}};
  const auto both = [](State& s) {
    s.set("x", s.at("x") * 2);
    s.set("y", s.at("y") * 3);
  };
  run("a", state, both);
  EXPECT_TRUE(is_boundary(state.at("x")));
  EXPECT_EQ(state.at("x").grad_fn(), state.at("y").grad_fn());
  run("b", state, both);
  // Backward through one of them reaches both.
  state.at("y").sum().backward();
  EXPECT_EQ(calls_, (Calls{"begin of b", "end of b", "begin of a", "end of a"}));
}

TEST_F(BoundaryTest, IsSilentInTheBackwardOfAnotherForward) {
  const at::Tensor shared = leaf() * 2;
  const int first = 0, second = 0;
  State one = {{"x", shared}}, two = {{"x", shared}};
  run("first", one, square, &first);
  run("second", two, square, &second);
  two.at("x").sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls_, (Calls{"begin of second", "end of second"}));
  calls_.clear();
  one.at("x").sum().backward();
  EXPECT_EQ(calls_, (Calls{"begin of first", "end of first"}));
}

// A node with several outputs, of which the unit passes on one, is not that of the boundary alone.
TEST_F(BoundaryTest, IsANodeBehindOneOutputOfSeveral) {
  State state = {{"x", leaf()}};
  at::Tensor other;
  run("a", state, [&](State& s) {
    const std::vector<at::Tensor> parts = (s.at("x") * 2).unbind(0);
    s.set("x", parts[0]);
    other = parts[1];
  });
  EXPECT_TRUE(is_boundary(state.at("x")));
  state.at("x").backward({}, /*retain_graph=*/true);
  EXPECT_EQ(calls_, (Calls{"begin of a", "end of a"}));
}

TEST_F(BoundaryTest, IsNotThereWithoutGradients) {
  State state = {{"x", at::ones({2})}, {"none", at::Tensor()}};
  EXPECT_FALSE(insert_boundary(state, UnitSide::kAfter, this, call("never")));
}

}  // namespace
}  // namespace weft::test
