// The harness itself: what collectives do, and that it finds what is wrong with a kernel.
#include <cstdlib>
#include <map>

#include "collectives.hpp"
#include "cuda/chunks.hpp"
#include "cuda/device.cuh"
#include "faults.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

TEST(Harness, CollectivesFollowTheirDefinition) {
  const Results results = in_every_order([] {
    Buffer<CollectivesResult> results(128);
    collectives(results.data());
    for (int thread = 0; thread < 128; ++thread) {
      const int lane = thread % 32;
      const CollectivesResult& result = results[thread];
      EXPECT_EQ(result.scan, (lane + 1) * (lane + 2) / 2);
      EXPECT_EQ(result.down, lane + 3 < 32 ? lane + 3 : lane);
      EXPECT_EQ(result.broadcast, int64_t{5} << 40);
      EXPECT_EQ(result.segment, lane) << "9 reaches out of a segment of 8";
      EXPECT_EQ(result.odd, 0xAAAAAAAA);
      EXPECT_EQ(result.any, 1);
      EXPECT_EQ(result.all, 0);
      EXPECT_EQ(result.half, lane < 16 ? lane ^ 1 : 0);
    }
    return Results{};
  });
}

TEST(Harness, AtomicsCountEveryValue) {
  std::vector<int> values, wanted(kBins);
  for (int i = 0; i < 1000; ++i) ++wanted[static_cast<size_t>(values.emplace_back(i * i % kBins))];
  const Results results = in_every_order([&] {
    Buffer<int> input(values), bins(std::vector<int>(kBins, 0));
    histogram(input.data(), 1000, bins.data());
    return Results{bins.values()};
  });
  EXPECT_EQ(results[0], std::vector<double>(wanted.begin(), wanted.end()));
}

TEST(Harness, SyncwarpOrdersTheSharedMemoryOfAWarp) {
  std::vector<double> values(256), wanted(256);
  for (size_t i = 0; i < 256; ++i) values[i] = double(i), wanted[i] = double(i / 32 * 32 + (i + 3) % 32);
  const Results results = in_every_order([&] {
    Buffer<float> rotated(values);
    rotate_warps(rotated.data());
    return Results{rotated.values()};
  });
  EXPECT_EQ(results[0], wanted);
}

TEST(Harness, RefusesGridsThatNoGpuTakes) {
  EXPECT_THROW(kernels::cuda::grid_of(int64_t{1} << 31, "rows"), std::invalid_argument);
  EXPECT_EQ(kernels::cuda::grid_of((int64_t{1} << 31) - 1, "rows"), (int64_t{1} << 31) - 1);
  const std::function<void()> nothing = [] {};
  EXPECT_THROW(on_host::run_grid(dim3(1), dim3(1025), 0, nothing), on_host::Error);
  EXPECT_THROW(on_host::run_grid(dim3(1), dim3(32), 164 << 10, nothing), on_host::Error);
}

TEST(Chunks, CoverEveryRangeOnce) {
  const std::vector<kernels::cuda::Chunk> chunks = kernels::cuda::chunks_of({0, 1, 8192, 8193});
  ASSERT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chunks[3].range, 3);
  EXPECT_EQ(chunks[3].begin, 8192);
  EXPECT_EQ(chunks[3].count, 1);
}

// What the message of each fault holds. ThreadSanitizer reports a race with its line; without it most races
// show in the results.
#ifdef WEFT_ON_HOST_TSAN
#define WEFT_RACE "data race(.|\n)*faults.cu:"
#else
#define WEFT_RACE "wrong result|changes the result"
#endif
const std::map<std::string, const char*> kMessages = {
    {"missing_barrier", WEFT_RACE},
    {"missing_second_barrier", WEFT_RACE},
    {"missing_syncwarp", WEFT_RACE},
    {"lucky_race", WEFT_RACE},
    {"divergent_barrier",
     "do not meet: threads 0-31 wait in __syncthreads at faults.cu:[0-9]+; threads 32-95 returned"},
    {"two_barriers", "do not meet: threads 0-31 wait in __syncthreads"},
    {"wrong_reduction", "wrong result"},
    {"atomic_sum", "changes the result"},
    {"uninitialised", "wrong result"},
    {"static_overflow", "AddressSanitizer: global-buffer-overflow|index 96 out of bounds"},
    {"dynamic_overflow",
     "thread [0-9]+ reads or writes out of bounds|AddressSanitizer: heap-buffer-overflow"},
    {"write_past_the_end", "thread 95 reads or writes out of bounds|AddressSanitizer: heap-buffer-overflow"},
    {"read_past_the_end", "thread 95 reads or writes out of bounds|AddressSanitizer: heap-buffer-overflow"},
    {"write_before_the_start", "bytes before the start|AddressSanitizer: heap-buffer-overflow"},
    {"divergent_shuffle", "in different calls|do not meet"},
    {"mask_without_caller", "mask 0x0000ffff, which leaves out the caller's lane"},
    {"lane_outside_mask", "reads lane 16, which takes no part"},
    {"misaligned", "a misaligned vector"},
};

class PlantedFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFound) {
  const std::string name = GetParam().name;
#ifndef WEFT_ON_HOST_TSAN
  if (name == "lucky_race") GTEST_SKIP() << "needs ThreadSanitizer: cuda_on_host_races";
#endif
#ifndef WEFT_ON_HOST_ASAN
  if (name == "static_overflow") GTEST_SKIP() << "needs AddressSanitizer: preset asan";
#endif
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  // Nothing found ends the child with 0, unless a sanitizer ends it with its report.
  const auto run = [&] {
    const std::string found = found_in(GetParam());
    std::fprintf(stderr, "%s\n", found.c_str());
    std::exit(found.empty() && !::testing::Test::HasFailure() ? 0 : 1);
  };
  EXPECT_EXIT(
      run(), [](int status) { return status != 0; }, kMessages.at(name));
}

INSTANTIATE_TEST_SUITE_P(Harness, PlantedFault, ::testing::ValuesIn(faults()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::testing
