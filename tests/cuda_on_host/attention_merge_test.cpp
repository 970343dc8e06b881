#include "cuda/attention_merge.hpp"

#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;
using cuda::MergeShape;

// The sum lies as (B, H, T, D), the part as (B, T, H, D) with rows `row` elements apart.
template <class T>
kernels::HeadsOf<T> by_position(T* data, const MergeShape& shape, int64_t row) {
  return {data, shape.positions * shape.heads * row, row, shape.heads * row};
}

template <class T>
Results run(const MergeShape& shape, int64_t shift, int64_t row, const std::vector<float>& one,
            const std::vector<float>& other, const std::vector<float>& one_sum,
            const std::vector<float>& other_sum) {
  Buffer<float> sum(one, shift), log_sum_exp(one_sum), part_log_sum_exp(other_sum);
  Buffer<T> part(other, shift);
  const kernels::Heads heads = {sum.data(), shape.heads * shape.positions * shape.size,
                                shape.positions * shape.size, shape.size};
  cuda::merge_attention<T>(shape, heads, log_sum_exp.data(), by_position<const T>(part.data(), shape, row),
                           part_log_sum_exp.data(), nullptr);
  return {sum.values(), log_sum_exp.values()};
}

template <class T>
void expect_reference(const MergeShape& shape, int64_t shift, int64_t row) {
  const int64_t rows = shape.batch * shape.heads * shape.positions;
  const std::vector<float> one = normal(rows * shape.size, 1), other = normal(rows * row, 2);
  std::vector<float> one_sum = normal(rows, 3, 3), other_sum = normal(rows, 4, 3);
  for (size_t r = 0; r < one_sum.size(); ++r) {  // rows without keys, on one side or both
    if (r % 5 == 1) one_sum[r] = -INFINITY;
    if (r % 7 == 1) other_sum[r] = -INFINITY;
  }
  const Results results =
      in_every_order([&] { return run<T>(shape, shift, row, one, other, one_sum, other_sum); });
  const std::vector<double> part = rounded<T>(other);
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = static_cast<size_t>(r);
    const double a = std::exp(exact(one_sum[at])), b = std::exp(exact(other_sum[at]));
    if (a + b == 0) {
      ASSERT_EQ(results[1][at], -INFINITY);
    } else {
      ASSERT_NEAR(results[1][at], std::log(a + b), 2e-6);
    }
    const int64_t t = r % shape.positions, h = r / shape.positions % shape.heads,
                  b_index = r / shape.positions / shape.heads;
    for (int64_t d = 0; d < shape.size; ++d) {
      const double x = exact(one[static_cast<size_t>(r * shape.size + d)]);
      const double y =
          part[static_cast<size_t>(((b_index * shape.positions + t) * shape.heads + h) * row + d)];
      const double wanted = a + b == 0 ? 0 : (a * x + b * y) / (a + b);
      ASSERT_NEAR(results[0][static_cast<size_t>(r * shape.size + d)], wanted, 2e-6 * (1 + std::abs(wanted)));
    }
  }
}

TEST(AttentionMergeOnHost, WeighsBothParts) {
  for_types([]<class T>(T) {
    expect_reference<T>({2, 3, 5, 64}, 0, 64);
    expect_reference<T>({1, 2, 9, 128}, 0, 130);  // rows that are not aligned for vectors
    expect_reference<T>({2, 2, 3, 33}, 1, 33);
    expect_reference<T>({1, 1, 1, 1}, 0, 1);
  });
}

TEST(AttentionMergeOnHost, IgnoresTheResultsOfRowsWithoutKeys) {
  const std::vector<float> bad(8, NAN), good = normal(8, 1);
  EXPECT_EQ(run<float>({1, 1, 1, 8}, 0, 8, bad, good, {-INFINITY}, {2})[0], rounded<float>(good));
  EXPECT_EQ(run<float>({1, 1, 1, 8}, 0, 8, good, bad, {2}, {-INFINITY})[0], rounded<float>(good));
}

}  // namespace
}  // namespace weft::testing
