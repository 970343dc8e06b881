// The context of a micro-batch's forward pass, and the unit that a thread runs in it.
#include "weft/nn/forward_context.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

#include "layers/random_stream.hpp"
#include "support/expect_error.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {
namespace {

using nn::ForwardContext;
using nn::RunningUnit;

constexpr auto kAgain = RunningUnit::Run::kAgain;

at::Tensor one() {
  return at::ones({});
}

TEST(ForwardContextTest, IsMissedOutsideOfAUnit) {
  EXPECT_ERROR(ForwardContext::current(), WEFT_FAILED_PRECONDITION, "a unit", "RunningUnit");
  EXPECT_EQ(RunningUnit::find(), nullptr);
}

TEST(ForwardContextTest, IsThatOfTheInnermostUnit) {
  ForwardContext first, second;
  const RunningUnit outer(first, 0);
  {
    const RunningUnit inner(second, 1);
    EXPECT_EQ(&ForwardContext::current(), &second);
  }
  EXPECT_EQ(&ForwardContext::current(), &first);
}

TEST(ForwardContextTest, NamesTheSequencesThatItHas) {
  const ForwardContext context({{"encoder", 9, 2, {{0, 9}}}, {"decoder", 5, 2, {{0, 5}}}});
  EXPECT_ERROR(context.sequence("coder"), WEFT_NOT_FOUND, "\"coder\"", "\"encoder\", \"decoder\"", "lengths");
  EXPECT_EQ(context.sequence("decoder").positions, 5);
}

TEST(AuxiliaryLoss, IsRefusedWithoutASequenceOrAScalar) {
  ForwardContext context({{"", 3, 1, {{0, 3}}}});
  const RunningUnit unit(context, 0);
  EXPECT_ERROR(context.add_loss({"balance", 1, one(), "other"}), WEFT_NOT_FOUND, "\"other\"");
  EXPECT_ERROR(context.add_loss({"balance", 1, at::ones({2}), ""}), WEFT_INVALID_ARGUMENT, "\"balance\"",
               "2 elements");
  EXPECT_TRUE(context.take_losses().empty());
}

TEST(AuxiliaryLoss, IsNotAddedAgainByARecomputation) {
  ForwardContext context({{"", 3, 1, {{0, 3}}}});
  for (const auto run : {RunningUnit::Run::kFirst, kAgain}) {
    const RunningUnit unit(context, 0, run);
    context.add_loss({"balance", 1, one(), ""});
  }
  EXPECT_EQ(context.take_losses().size(), 1);
  EXPECT_TRUE(context.take_losses().empty());
}

std::vector<uint64_t> drawn(ForwardContext& context, uint64_t unit, RunningUnit::Run run) {
  const RunningUnit running(context, unit, run);
  return {nn::drawn_seed(), nn::drawn_seed(), nn::drawn_seed(3)};
}

TEST(RandomNumbers, FollowFromTheMicroBatchAndTheUnitAlone) {
  ForwardContext first({}, 7), second({}, 8);
  const auto numbers = drawn(first, 2, RunningUnit::Run::kFirst);
  EXPECT_NE(numbers[0], numbers[1]);
  drawn(second, 5, RunningUnit::Run::kFirst);  // must not change what follows
  at::manual_seed(3);
  EXPECT_EQ(drawn(first, 2, kAgain), numbers);
  EXPECT_NE(drawn(first, 3, kAgain), numbers);
  EXPECT_NE(drawn(second, 2, kAgain), numbers);
  EXPECT_EQ(at::rand({4}).equal((at::manual_seed(3), at::rand({4}))), true) << "the default generator drew";
}

TEST(RandomNumbers, ComeFromTheDefaultGeneratorWithoutASeed) {
  ForwardContext context;
  const RunningUnit unit(context, 0);
  at::manual_seed(3);
  const uint64_t number = nn::drawn_seed();
  at::manual_seed(3);
  EXPECT_EQ(nn::drawn_seed(), number);
  EXPECT_NE(nn::drawn_seed(), number);
}

// Covers the fused kernel and libtorch's generator.
TEST(RandomNumbers, MaskDropoutAlikeWhateverRanBefore) {
  for (const bool on_host : {true, false}) {
    ForwardContext context({}, 7);
    const auto random = [&](uint64_t unit) {
      const RunningUnit running(context, unit);
      if (on_host) return nn::Dropout(0.5)(at::ones({40}));
      const nn::RandomStream stream(0);
      return at::rand({40});
    };
    const at::Tensor expected = random(1);
    EXPECT_FALSE(random(2).equal(expected)) << on_host;
    EXPECT_TRUE(random(1).equal(expected)) << on_host;
  }
}

TEST(RunningUnitTest, KeepsWhatLayersShareUntilItEnds) {
  ForwardContext context;
  const int owner = 0, other = 0;
  std::weak_ptr<int> kept;
  {
    RunningUnit unit(context, 0);
    auto& shared = unit.kept().of<std::shared_ptr<int>>(&owner);
    EXPECT_EQ(shared, nullptr);
    shared = std::make_shared<int>(3);
    kept = shared;
    EXPECT_EQ(unit.kept().of<std::shared_ptr<int>>(&other), nullptr);
    EXPECT_EQ(*unit.kept().of<std::shared_ptr<int>>(&owner), 3);
  }
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace weft::test
