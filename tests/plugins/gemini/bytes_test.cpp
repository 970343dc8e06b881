// What gemini holds and sends, counted.
#include <fmt/format.h>

#include "plugins/gemini/support.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

std::map<std::string, int64_t> sent_by_a_step(const World& world, const JobOptions& options) {
  Job job = boost(world, toy(options, kEvenToy), options, "adamw");
  const Batch batch = toy_batch(world.size(), 1, false);
  job.train_step(own_part(batch, world));
  return sent_bytes([&] { job.train_step(own_part(batch, world)); });
}

// In units of what all chunks take, times (P - 1) / P.
std::map<std::string, int64_t> chunks(const World& world, int64_t gathered, int64_t reduced) {
  const int64_t others = world.size() - 1;
  return {{"all_gather", gathered * kChunkBytes / world.size() * others},
          {"reduce_scatter", reduced * kChunkBytes / world.size() * others}};
}

}  // namespace

// Forward, backward and gradients, 1 + 1 + 1; but the tied embedding's chunk is gathered once for both.
WEFT_RANKS_TEST(GeminiBytes, AreThoseOfTheChunksToTheByte, 2, 3, 4) {
  const auto sent = sent_by_a_step(world, gemini(kEvenChunks));
  EXPECT_EQ(sent, chunks(world, 2 * kChunks - 1, kChunks));
}

WEFT_RANKS_TEST(GeminiBytes, AreTheSameWithRecomputation, 2) {
  JobOptions options = gemini(kEvenChunks);
  options.recompute = "all";
  EXPECT_EQ(sent_by_a_step(world, options), chunks(world, 2 * kChunks - 1, kChunks));
}

WEFT_RANKS_TEST(GeminiBytes, AgreeWithTheKernel, 2) {
  expect_kernel_agrees(world, gemini(kEvenChunks));
}

WEFT_RANKS_TEST(GeminiBytes, HeldAndSentAreAsEstimated, 2, 3) {
  std::vector<JobOptions> all = {gemini(""), gemini("\"strict_ddp_mode\": true")};
  for (const char* more : {"", ", \"shard_param_frac\": 0.5", ", \"offload_optim_frac\": 0.4",
                           ", \"enable_gradient_accumulation\": true", ", \"placement_policy\": \"auto\""})
    for (const char* precision : {"fp32", "bf16"})
      all.push_back(gemini(std::string(kEvenChunks) + more, precision));
  for (const JobOptions& options : slice(fmt::format("HeldAndSent gemini {}", world.size()), all, 4))
    expect_estimate_is_counted(world, options);
}

WEFT_RANKS_TEST(GeminiBytes, AreAsEstimatedForAHalfFrozenModel, 2, 3) {
  expect_estimate_is_counted(world, gemini(kEvenChunks, "bf16"), kHalfFrozenToy);
  expect_estimate_is_counted(
      world, gemini(std::string(kEvenChunks) + ", \"placement_policy\": \"cpu\"", "bf16"), kHalfFrozenToy);
}

WEFT_RANKS_TEST(GeminiBytes, WithoutMastersAreAsEstimated, 2, 3) {
  expect_estimate_is_counted(world, gemini(std::string(kEvenChunks) + ", \"master_weights\": false", "bf16"));
}

// What stays gathered from forward to backward is gathered once: all, or the last 12 of 25.
WEFT_RANKS_TEST(GeminiBytes, FallWithWhatStaysGathered, 2) {
  const std::string keys = std::string(kEvenChunks) + ", ";
  EXPECT_EQ(sent_by_a_step(world, gemini(keys + "\"shard_param_frac\": 0")), chunks(world, kChunks, kChunks));
  EXPECT_EQ(sent_by_a_step(world, gemini(keys + "\"placement_policy\": \"cuda\"")),
            chunks(world, kChunks, kChunks));
  EXPECT_EQ(sent_by_a_step(world, gemini(keys + "\"shard_param_frac\": 0.5")),
            chunks(world, 2 * kChunks - 1 - 12, kChunks));
  EXPECT_EQ(sent_by_a_step(
                world, gemini(R"("chunk_config_dict": {"2": {"chunk_size": 37440, "keep_gathered": true}})")),
            chunks(world, kChunks, kChunks));
  // Nothing has to leave where there is room.
  EXPECT_EQ(sent_by_a_step(world, gemini(keys + "\"placement_policy\": \"auto\"")),
            chunks(world, kChunks, kChunks));
}

WEFT_RANKS_TEST(GeminiBytes, AreHalvesAndASumOverCopiesForACopiedModel, 4) {
  const auto sent = sent_by_a_step(world, gemini(std::string(kEvenChunks) + ", \"extra_dp_size\": 2"));
  const int64_t half = kChunkBytes / 2;
  const std::map<std::string, int64_t> expected = {{"all_gather", (2 * kChunks - 1) * half},
                                                   {"reduce_scatter", kChunks * half},
                                                   // 2 (P - 1) / P of each rank's half over 2 copies
                                                   {"all_reduce", kChunks * half}};
  EXPECT_EQ(sent, expected);
}

WEFT_RANKS_TEST(GeminiBytes, AreThoseOfOneSumWithStrictDdp, 2) {
  const auto sent = sent_by_a_step(world, gemini(std::string(kEvenChunks) + ", \"strict_ddp_mode\": true"));
  const std::map<std::string, int64_t> expected = {{"all_reduce", kChunks * kChunkBytes}};
  EXPECT_EQ(sent, expected);
}

WEFT_RANKS_TEST(GeminiMemory, HoldsSixteenBytesAParameterDividedByTheRanks, 2, 3, 4) {
  const StateBytes bytes = state_bytes(world, gemini(kEvenChunks));
  const double part = bytes.elements / world.size();
  EXPECT_NEAR(static_cast<double>(bytes.configured) / part, 4, 0.08);
  EXPECT_NEAR(static_cast<double>(bytes.held) / part, 16, 0.32);
  EXPECT_NEAR(static_cast<double>(bytes.between) / part, 12, 0.24);
}

// Masters and moments in fp32; gradients in bf16 where the values of the chunk were, in fp32 with
// accumulation.
WEFT_RANKS_TEST(GeminiMemory, HoldsFourteenBytesAParameterInHalfPrecision, 2, 3) {
  for (const bool accumulates : {false, true}) {
    const StateBytes bytes = state_bytes(
        world, gemini(std::string(kEvenChunks) +
                          ", \"enable_gradient_accumulation\": " + (accumulates ? "true" : "false"),
                      "bf16"));
    const double part = bytes.elements / world.size(), expected = accumulates ? 16 : 14;
    EXPECT_NEAR(static_cast<double>(bytes.held) / part, expected, 0.02 * expected);
    EXPECT_NEAR(static_cast<double>(bytes.between) / part, 12, 0.24);
  }
}

// Values, gradients and, in fp32, two moments.
WEFT_RANKS_TEST(GeminiMemory, HoldsTwelveBytesAParameterWithoutMasters, 2, 3) {
  const StateBytes bytes =
      state_bytes(world, gemini(std::string(kEvenChunks) + ", \"master_weights\": false", "bf16"));
  const double part = bytes.elements / world.size();
  EXPECT_NEAR(static_cast<double>(bytes.held) / part, 12, 0.24);
  EXPECT_NEAR(static_cast<double>(bytes.between) / part, 10, 0.2);
}

// The most is in the pool when the backward of unit 2 + prefetch begins: its two chunks and the tied one are
// gathered, the next `prefetch` are being gathered, and the chunk after the unit's is being reduced. The
// chunks behind that one have gradients, of which a rank holds a part, as of the master weights and two
// moments. The padding, which the last rank holds, has no moments.
WEFT_RANKS_TEST(GeminiMemory, AddsTheChunksOfAUnitAndThoseOnTheWay, 2, 4) {
  for (const int64_t prefetch : {0, 2}) {
    const PlacedBytes bytes = placed_bytes(
        world, gemini(std::string(kEvenChunks) + ", \"max_prefetch\": " + std::to_string(prefetch)));
    const int64_t gathered = 3 + 1 + prefetch, gradients = kChunks - 3 - prefetch;
    const int64_t padding = kChunks * kChunkBytes - 4 * static_cast<int64_t>(bytes.elements);
    EXPECT_EQ(static_cast<int64_t>(bytes.most), gathered * kChunkBytes +
                                                    (3 * kChunks + gradients) * kChunkBytes / world.size() -
                                                    (world.rank() + 1 == world.size() ? 2 * padding : 0))
        << prefetch;
  }
}

WEFT_RANKS_TEST(GeminiMemory, HoldsAllOnEveryRankInStrictDdpMode, 2) {
  const StateBytes bytes =
      state_bytes(world, gemini(std::string(kEvenChunks) + ", \"strict_ddp_mode\": true"));
  EXPECT_NEAR(static_cast<double>(bytes.held) / bytes.elements, 16, 0.32);
}

}  // namespace weft::test
