// Masters, moments and summed gradients in the host's memory.
#include "plugins/low_level_zero/support.hpp"
#include "plugins/support/pools.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

std::string keys(int64_t number, bool offloads) {
  return stage(number) + ", " + buckets(kEvenBlock) + ", \"cpu_offload\": " + (offloads ? "true" : "false");
}

// Psi parameters on P ranks. On the accelerator the values; on the host gradients, masters and two moments of
// a part, in fp32 too.
WEFT_RANKS_TEST(CpuOffload, LeavesTheAcceleratorNothingButTheValues, 1, 2, 3) {
  for (const BytesOfAnElement& formula : kPrecisions)
    for (const int64_t number : {1, 2}) {
      const JobOptions options = zero(keys(number, true), formula.precision);
      const PlacedBytes bytes = placed_bytes(world, options);
      const double part = bytes.elements / world.size();
      expect_bytes(bytes.accelerator, formula.value * bytes.elements, options.options);
      expect_bytes(bytes.host, formula.offloaded() * part, options.options);
      // Updated parts come up and sums go down once; the embedding's, a whole bucket, from where autograd
      // made its gradient, which is in no pool.
      expect_bytes(bytes.brought, formula.value * part, options.options);
      expect_bytes(bytes.taken, formula.value * 24 * kEvenBlock / world.size(), options.options);
    }
}

// Buckets are freed when they are summed: three are there at most, or all where that waits for the end.
WEFT_RANKS_TEST(CpuOffload, AddsToThePeakTheBucketsUnderWay, 2, 3) {
  for (const BytesOfAnElement& formula : kPrecisions)
    for (const int64_t number : {1, 2})
      for (const char* overlap : {"true", "false"}) {
        const JobOptions options =
            zero(keys(number, true) + ", \"overlap_communication\": " + overlap, formula.precision);
        const PlacedBytes bytes = placed_bytes(world, options);
        const double bucket = formula.value * kEvenBlock, gradients = bytes.most - bytes.accelerator;
        // The embedding's gradient, which is a whole bucket, stays where autograd made it.
        if (number == 1 && *overlap == 'f')
          expect_bytes(gradients, 24 * bucket, options.options);
        else
          EXPECT_LE(gradients, 3 * bucket) << options.options;
      }
}

WEFT_RANKS_TEST(CpuOffload, OffHasAllOnTheAccelerator, 2) {
  const PlacedBytes bytes = placed_bytes(world, zero(keys(2, false)));
  EXPECT_EQ(bytes.host, 0);
  EXPECT_EQ(bytes.brought + bytes.taken, 0);
  expect_bytes(bytes.accelerator, (4 + 12. / 2) * bytes.elements, "stage 2");
}

TEST(CpuOffload, ChangesNoBit) {
  struct Bits {
    int64_t stage;
    const char* precision;
    std::string more;
    int ranks;
  };
  std::vector<Bits> all;
  for (const int64_t number : {1, 2}) {
    for (const int ranks : {1, 2, 3}) all.push_back({number, "fp32", "", ranks});
    all.push_back({number, "bf16", "", 2});
    all.push_back(
        {number, "fp32", ", \"extra_dp_size\": 2, \"overlap_allgather\": true, \"max_norm\": 0.05", 4});
  }
  for (const auto& [number, precision, more, ranks] : slice("ChangesNoBit low_level_zero", all, 3)) {
    const std::string keys = stage(number) + ", " + buckets(200) + more;
    JobOptions offloaded = zero(keys + ", \"cpu_offload\": true", precision), held = zero(keys, precision);
    offloaded.accumulate = held.accumulate = 2;
    expect_same_bits(offloaded, held, {ranks});
  }
}

WEFT_RANKS_TEST(CpuOffload, TrainsWhatTheAcceleratorCannotHoldOtherwise, 2) {
  const int64_t values = 4 * 25 * kEvenBlock;
  expect_only_fits(world, zero(keys(1, true)), zero(keys(1, false)), values * 5 / 4);
  expect_only_fits(world, zero(keys(2, true)), zero(keys(2, false)), values * 5 / 4);
}

WEFT_RANKS_TEST(CpuOffload, IsAnErrorWhereTheValuesDoNotFit, 2) {
  const AcceleratorLimit limit(4 * 20 * kEvenBlock);
  const JobOptions options = zero(keys(2, true));
  EXPECT_ERROR(boost(world, toy(options, kEvenToy), options), WEFT_RESOURCE_EXHAUSTED, "low_level_zero",
               "accelerator memory", "wanted", "in use");
}

WEFT_RANKS_TEST(CpuOffload, IsAsEstimated, 2, 3) {
  expect_estimate_is_counted(world, zero(keys(1, true)));
  expect_estimate_is_counted(world, zero(keys(2, true), "bf16"));
}

}  // namespace

}  // namespace weft::test
