#include "cuda/dropout.hpp"

#include "cpu/dropout.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;

std::vector<double> bernoulli_of_cpu(int64_t count, uint64_t seed, double probability) {
  std::vector<uint8_t> values(static_cast<size_t>(count));
  kernels::bernoulli(count, seed, probability, values.data());
  return {values.begin(), values.end()};
}

constexpr cuda::MaskSeed kSeed = {0x123456789ABCDEFull};

TEST(DropoutOnHost, DrawsTheBitsOfTheCpu) {
  for (const int64_t count : {1, 7, 16, 100, 4096, 4097, 8191, 40000})
    for (const int64_t shift : {0, 3}) {
      const Results results = in_every_order([&] {
        Buffer<uint8_t> values(count, shift);
        cuda::bernoulli(count, kSeed, 0.9, values.data(), nullptr);
        return Results{values.values()};
      });
      EXPECT_EQ(results[0], bernoulli_of_cpu(count, kSeed.number, 0.9)) << count;
    }
  for (const double probability : {0.0, 1.0, 0.5, 1e-12}) {
    Buffer<uint8_t> values(5000);
    cuda::bernoulli(5000, {7}, probability, values.data(), nullptr);
    EXPECT_EQ(values.values(), bernoulli_of_cpu(5000, 7, probability)) << probability;
  }
}

template <class T>
void expect_reference(int64_t count, int64_t shift, bool adds, bool in_place) {
  constexpr double kProbability = 0.8;
  constexpr float kScale = 1.25f;
  const std::vector<float> of_x = normal(count, 1), of_residual = normal(count, 2);
  const Results results = in_every_order([&] {
    Buffer<T> x(of_x, shift), residual(of_residual, 2 * shift), other(count);
    Buffer<T>& y = in_place ? x : other;
    cuda::dropout(count, kSeed, kProbability, adds ? residual.data() : nullptr, x.data(), kScale, y.data(),
                  nullptr);
    return Results{y.values()};
  });
  Buffer<T> x(of_x), residual(of_residual), y(count);
  Buffer<uint8_t> mask(count);
  kernels::bernoulli(count, kSeed.number, kProbability, mask.data());
  kernels::dropout<T>(count, adds ? residual.data() : nullptr, x.data(), mask.data(), kScale, y.data());
  expect_same(results, {y.values()}, "the CPU");
  for (int64_t i = 0; i < count; ++i) {
    const double wanted = (adds ? exact(residual[i]) : 0) + exact(x[i]) * exact(mask[i]) * 1.25;
    ASSERT_NEAR(results[0][static_cast<size_t>(i)], wanted, kRounding<T> * std::abs(wanted) + 3e-7) << i;
  }
}

TEST(DropoutOnHost, GivesTheResultsOfTheCpu) {
  for_types([]<class T>(T) {
    expect_reference<T>(1, 0, true, false);
    expect_reference<T>(4096, 0, false, true);
    expect_reference<T>(12345, 0, true, true);
    expect_reference<T>(8200, 1, true, false);
  });
}

TEST(DropoutOnHost, ReadsItsSeedFromTheDeviceWhenItRuns) {
  Buffer<int64_t> place(1);
  Buffer<uint8_t> values(5000);
  Buffer<float> x(std::vector<float>(5000, 1)), y(5000);
  for (const int64_t seed : {int64_t{-3}, int64_t{1} << 40}) {
    place[0] = seed;
    const std::vector<double> wanted = bernoulli_of_cpu(5000, static_cast<uint64_t>(seed), 0.4);
    cuda::bernoulli(5000, {7, place.data()}, 0.4, values.data(), nullptr);
    EXPECT_EQ(values.values(), wanted) << seed;
    cuda::dropout<float>(5000, {7, place.data()}, 0.4, nullptr, x.data(), 1, y.data(), nullptr);
    EXPECT_EQ(y.values(), wanted) << seed;
  }
}

}  // namespace
}  // namespace weft::testing
