#include "cuda/column_sums.hpp"

#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;

template <class T>
Results run(const std::vector<float>& values, int64_t rows, int64_t channels, int64_t shift) {
  Buffer<T> x(values, shift), sums(channels, shift);
  Buffer<float> partial(cuda::column_sum_parts(rows, channels) * channels);
  cuda::column_sums(rows, channels, x.data(), partial.data(), sums.data(), nullptr);
  return {sums.values()};
}

template <class T>
void expect_reference(int64_t rows, int64_t channels, int64_t shift) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
  const std::vector<float> values = normal(rows * channels, 4);
  const Results results = in_every_order([&] { return run<T>(values, rows, channels, shift); });
  const std::vector<double> x = rounded<T>(values);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, size = 0;
    for (int64_t row = 0; row < rows; ++row) {
      sum += x[static_cast<size_t>(row * channels + c)];
      size += std::abs(x[static_cast<size_t>(row * channels + c)]);
    }
    ASSERT_NEAR(results[0][static_cast<size_t>(c)], sum, kRounding<T> * std::abs(sum) + 1e-6 * size)
        << "column " << c;
  }
}

TEST(ColumnSumsOnHost, AddUpRows) {
  for_types([]<class T>(T) {
    expect_reference<T>(1, 1, 0);
    expect_reference<T>(3, 100, 0);
    expect_reference<T>(64, 264, 0);  // one part
    expect_reference<T>(65, 264, 1);  // two, from an odd place
    expect_reference<T>(300, 77, 0);
    expect_reference<T>(1000, 512, 0);
    expect_reference<T>(2001, 8, 0);
  });
}

TEST(ColumnSumsOnHost, HaveTheSameBitsWithoutVectors) {
  const std::vector<float> values = normal(500 * 320, 5);
  expect_same(run<float>(values, 500, 320, 1), run<float>(values, 500, 320, 0), "without vectors");
}

TEST(ColumnSumsOnHost, AreZeroWithoutRows) {
  for_types([]<class T>(T) {
    expect_reference<T>(0, 40, 0);
    expect_reference<T>(0, 5, 1);
    expect_reference<T>(9, 0, 0);
    expect_reference<T>(0, 0, 0);
  });
}

TEST(ColumnSumsOnHost, HaveOnePartOrEnoughBlocks) {
  EXPECT_EQ(cuda::column_sum_parts(0, 0), 1);
  EXPECT_EQ(cuda::column_sum_parts(64, 768), 1);
  EXPECT_EQ(cuda::column_sum_parts(65, 768), 2);
  EXPECT_EQ(cuda::column_sum_parts(16384, 768), 171);
  EXPECT_EQ(cuda::column_sum_parts(8192, 8192), 16);
  EXPECT_EQ(cuda::column_sum_parts(INT64_MAX / 8, 8), 512);
}

}  // namespace
}  // namespace weft::testing
