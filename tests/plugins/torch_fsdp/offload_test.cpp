// Shards in the host's memory, units gathered on the accelerator.
#include "plugins/support/pools.hpp"
#include "plugins/torch_fsdp/support.hpp"

namespace weft::test {

namespace {

constexpr int64_t kTied = 192 * 192, kBlocks = 24;

std::string with_offload(std::string options) {
  return options.insert(1, R"("cpu_offload": true, )");
}

// On the host values, gradients and two moments of a part, in fp32, and in bf16 the values that are gathered;
// on the accelerator nothing between steps.
WEFT_RANKS_TEST(CpuOffload, LeavesTheAcceleratorNothing, 1, 2, 4) {
  for (const char* precision : {"fp32", "bf16"}) {
    const double working = precision == std::string("bf16") ? 2 : 4;
    for (const char* options : {kFull, kGradOp, kNone}) {
      SCOPED_TRACE(std::string(precision) + options);
      const PlacedBytes bytes = placed_bytes(world, fsdp(with_offload(options), precision));
      const double part = options == kNone ? bytes.elements : bytes.elements / world.size();
      EXPECT_EQ(bytes.accelerator, 0);
      const double kept = 16 + (working == 2 ? 2 : 0);
      EXPECT_NEAR(bytes.host, kept * part, 0.02 * kept * part);
      // Values are brought for every gather; the tied ones stay from forward to backward. Sums go down once.
      const int64_t again = options == kFull ? kBlocks * kEvenBlock : 0;
      const double gathered = part * (1 + static_cast<double>(again) / bytes.elements);
      EXPECT_NEAR(bytes.brought, working * gathered, 0.02 * working * gathered);
      EXPECT_NEAR(bytes.taken, 4 * part, 0.02 * 4 * part);
    }
  }
}

// Units at work and gathered next, their gradients and those under way; the tied weight and its gradient.
WEFT_RANKS_TEST(CpuOffload, HasFiveUnitsOnTheAcceleratorAtMost, 2, 4) {
  const PlacedBytes bytes = placed_bytes(world, fsdp(with_offload(R"({"forward_prefetch": true})")));
  EXPECT_LE(bytes.most, 4 * (5 * kEvenBlock + 2 * kTied));
  EXPECT_GT(bytes.most, 4 * (2 * kEvenBlock + kTied));
}

WEFT_RANKS_TEST(CpuOffload, OffHasAllOnTheAccelerator, 2) {
  const PlacedBytes bytes = placed_bytes(world, fsdp());
  EXPECT_EQ(bytes.host, 0);
  EXPECT_EQ(bytes.brought + bytes.taken, 0);
  EXPECT_NEAR(bytes.accelerator, 16 * bytes.elements / 2, 0.02 * 16 * bytes.elements / 2);
}

TEST(CpuOffload, ChangesNoBit) {
  const auto expect_same = [](const std::string& options, const char* precision,
                              const std::vector<int>& ranks) {
    const auto chosen = [&](const std::string& text) {
      JobOptions job = fsdp(text, precision);
      job.accumulate = 2;
      job.max_grad_norm = 0.5;
      return job;
    };
    expect_same_bits(chosen(with_offload(options)), chosen(options), ranks);
  };
  expect_same(kFull, "fp32", {1, 2, 3});
  expect_same(kFull, "bf16", {1, 2});
  expect_same(kGradOp, "fp32", {2});
  expect_same(kNone, "fp32", {2});
  expect_same(kHybridTwo, "fp32", {4});
  expect_same(R"({"mixed_precision": {"reduce_dtype": "fp32"}})", "bf16", {2});
  expect_same(R"({"ignored_modules": ["transformer.wte"], "sync_module_states": true})", "fp32", {2});
}

WEFT_RANKS_TEST(CpuOffload, TrainsAModelOfFourTimesTheAccelerator, 2) {
  const int64_t state = 16 * (kBlocks * kEvenBlock + kTied) / world.size();
  expect_only_fits(world, fsdp(with_offload(kFull)), fsdp(kFull), state / 4);
}

WEFT_RANKS_TEST(CpuOffload, IsAnErrorWhereAUnitDoesNotFit, 2) {
  const AcceleratorLimit limit(3 * kEvenBlock);
  const JobOptions options = fsdp(with_offload(kFull));
  EXPECT_ERROR(boost(world, toy(options, kEvenToy), options), WEFT_RESOURCE_EXHAUSTED, "torch_fsdp",
               "accelerator memory", "wanted", "in use");
}

WEFT_RANKS_TEST(CpuOffload, IsAsEstimated, 2, 4) {
  for (const char* options : {kFull, kNone}) expect_estimate_is_counted(world, fsdp(with_offload(options)));
  expect_estimate_is_counted(world, fsdp(with_offload(kHybridTwo), "bf16"));
}

}  // namespace

}  // namespace weft::test
