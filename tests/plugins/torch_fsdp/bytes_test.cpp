// What torch_fsdp holds and sends, against its formulas.
#include <fmt/format.h>

#include "device/counting_allocator.hpp"
#include "plugins/torch_fsdp/support.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

using Sent = std::map<std::string, int64_t>;

// Bytes that one rank of `ranks` sends to gather or to divide flat buffers of so many elements each; their
// parts are padded to equal size.
int64_t moved(const std::vector<int64_t>& buffers, int64_t ranks) {
  int64_t bytes = 0;
  for (const int64_t elements : buffers) bytes += 4 * (ranks - 1) * ((elements + ranks - 1) / ranks);
  return bytes;
}

// GPT-2's flat buffers: the tied embedding, the positions, two blocks, the last norm.
constexpr int64_t kTied = 23 * 12, kPositions = 9 * 12, kBlock = 12 * 12 * 12 + 13 * 12, kNorm = 24;
const std::vector<int64_t> kAll = {kTied, kPositions, kBlock, kBlock, kNorm};
// The last unit's are kept between forward and backward.
const std::vector<int64_t> kAgain = {kPositions, kBlock, kBlock};

Sent sent_in_a_step(const World& world, const std::string& options, const std::string& precision = "fp32") {
  const JobOptions chosen = fsdp(options, precision);
  Job job = boost(world, tiny_gpt2(precision), chosen, "adamw");
  const auto step = [&] { job.train_step(own_part(gpt2_batch(8, 1), world)); };
  const Sent first = sent_bytes(step);
  EXPECT_EQ(sent_bytes(step), first) << "every step sends the same";
  return first;
}

WEFT_RANKS_TEST(SentBytes, FollowTheFormulas, 2, 3, 4) {
  const int64_t ranks = world.size(), all = moved(kAll, ranks), again = moved(kAgain, ranks);
  EXPECT_EQ(sent_in_a_step(world, kFull), (Sent{{"all_gather", all + again}, {"reduce_scatter", all}}));
  EXPECT_EQ(sent_in_a_step(world, kGradOp), (Sent{{"all_gather", all}, {"reduce_scatter", all}}));
  int64_t sums = 0;
  for (const int64_t elements : kAll) sums += 2 * 4 * elements * (ranks - 1) / ranks;
  EXPECT_EQ(sent_in_a_step(world, kNone), (Sent{{"all_reduce", sums}}));
}

WEFT_RANKS_TEST(SentBytes, AreHalfInHalfPrecision, 2) {
  const int64_t all = moved(kAll, 2), again = moved(kAgain, 2);
  EXPECT_EQ(sent_in_a_step(world, kFull, "bf16"),
            (Sent{{"all_gather", (all + again) / 2}, {"reduce_scatter", all / 2}}));
  EXPECT_EQ(sent_in_a_step(world, R"({"mixed_precision": {"reduce_dtype": "fp32"}})", "bf16"),
            (Sent{{"all_gather", (all + again) / 2}, {"reduce_scatter", all}}));
}

// Within a pair as FULL_SHARD, and the sums of the parts over the other pair: 3 (S-1)/S + 2 (R-1)/(R S).
WEFT_RANKS_TEST(SentBytes, FollowTheFormulaOfHybridShard, 4) {
  int64_t sums = 0;
  for (const int64_t elements : kAll) sums += 2 * 4 * (elements / 2) / 2;
  EXPECT_EQ(sent_in_a_step(world, kHybridTwo), (Sent{{"all_gather", moved(kAll, 2) + moved(kAgain, 2)},
                                                     {"reduce_scatter", moved(kAll, 2)},
                                                     {"all_reduce", sums}}));
}

struct Holds {
  const char* options;
  int64_t parts(int64_t ranks) const { return options == kNone ? 1 : options == kHybridTwo ? 2 : ranks; }
};

// Returns some of the shardings, each in a precision.
std::vector<std::pair<Holds, const char*>> drawn_holds(const World& world, const char* test, size_t count) {
  std::vector<std::pair<Holds, const char*>> all;
  for (const char* precision : {"fp32", "bf16"})
    for (const char* options : {kFull, kGradOp, kNone, kHybridTwo})
      all.push_back({Holds{options}, precision});
  return slice(fmt::format("HeldBytes {} {}", test, world.size()), all, count);
}

// Values, gradients and two moments, in 4 bytes each: in bf16 too, where the values are the masters.
WEFT_RANKS_TEST(HeldBytes, FollowTheFormulas, 2, 4) {
  for (const auto& [holds, precision] : drawn_holds(world, "FollowTheFormulas", 3)) {
    SCOPED_TRACE(std::string(precision) + holds.options);
    const StateBytes bytes = state_bytes(world, fsdp(holds.options, precision));
    const double own = bytes.elements / static_cast<double>(holds.parts(world.size()));
    EXPECT_NEAR(static_cast<double>(bytes.configured) / own, 4, 0.08);
    EXPECT_NEAR(static_cast<double>(bytes.held) / own, 16, 0.32);
    EXPECT_NEAR(static_cast<double>(bytes.between) / own, 12, 0.24);
  }
}

WEFT_RANKS_TEST(HeldBytes, AndSentOnesAreThoseOfTheEstimate, 2, 4) {
  for (const auto& [holds, precision] : drawn_holds(world, "AreThoseOfTheEstimate", 3))
    expect_estimate_is_counted(world, fsdp(holds.options, precision));
  expect_estimate_is_counted(world, fsdp(kFull, "bf16"), kHalfFrozenToy);
}

// Each part is padded by less than one element for each rank.
WEFT_RANKS_TEST(HeldBytes, ArePaddedByLessThanOneElementABuffer, 3) {
  const StateBytes bytes = state_bytes(world, fsdp(), "\"gated\": false, \"blocks\": 20, \"width\": 7");
  const int64_t values = 4 * ((13 * 7 + 2) / 3 + 20 * ((7 * 7 + 3 * 7 + 2) / 3));
  // The counting allocator sees elements, and so do the formulas.
  EXPECT_NEAR(static_cast<double>(bytes.configured), static_cast<double>(values),
              0.02 * static_cast<double>(values));
}

// Beside what is held: the unit at work and the one that is gathered next, the gradients of the one at work,
// and those under way with what arrives for them; the tied weight and its gradient; activations.
WEFT_RANKS_TEST(PeakBytes, StayWithinFiveUnitsUnderFullShard, 2, 4) {
  JobOptions options = fsdp(R"({"forward_prefetch": true})");
  options.recompute = "all";
  const StateBytes bytes = state_bytes(world, options);
  const int64_t tied = 4 * 192 * 192, activations = 4 * 5 * 192 * (26 + 12);
  EXPECT_LT(bytes.peak, bytes.held + 5 * 4 * kEvenBlock + 2 * tied + activations);
  EXPECT_GT(bytes.peak, bytes.between + tied);
}

WEFT_RANKS_TEST(PeakBytes, GrowWithTheModelIfGathersRunAhead, 2) {
  const auto peak = [&](const char* options) {
    JobOptions chosen = fsdp(options);
    chosen.recompute = "all";
    return state_bytes(world, chosen).peak;
  };
  const int64_t one_ahead = peak("{}"), unit = 4 * kEvenBlock;
  EXPECT_LT(peak(R"({"backward_prefetch": "none"})"), one_ahead - unit / 2);
  EXPECT_GT(peak(R"({"limit_all_gathers": false})"), one_ahead + 10 * unit);
  EXPECT_GT(peak(kGradOp), one_ahead + 10 * unit);
  EXPECT_GT(peak(R"({"auto_wrap_policy": "none"})"), one_ahead + 20 * unit);
}

// Each rank makes its own part of the initial values, so that no rank ever holds the model.
WEFT_RANKS_TEST(PeakBytes, AreThoseOfTheOwnPartInConfigure, 2) {
  count_memory();
  const int64_t before = allocated_bytes();
  reset_peak_allocated_bytes();
  const JobOptions options = fsdp();
  Job job = boost(world, toy(options, kEvenToy), options);
  EXPECT_LT(peak_allocated_bytes() - before, 4 * job.model.num_elements() / 2 + 2 * 4 * kEvenBlock);
}

WEFT_RANKS_TEST(HeldBytes, AndSentOnesAgreeWithTheKernel, 2) {
  expect_kernel_agrees(world, fsdp(kFull));
}

}  // namespace

}  // namespace weft::test
