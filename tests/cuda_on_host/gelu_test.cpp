#include "cuda/gelu.hpp"

#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;
using kernels::Gelu;

// dx, and its sums over rows.
template <class T>
Results run(Gelu kind, const std::vector<float>& values, const std::vector<float>& gradients, int64_t rows,
            int64_t channels, int64_t shift, bool in_place) {
  Buffer<T> x(values, shift), dy(gradients), dx(rows * channels), sums(channels);
  Buffer<float> partial(cuda::gelu_parts(rows) * channels);
  Buffer<T>& result = in_place ? dy : dx;
  cuda::gelu_backward(kind, rows, channels, x.data(), dy.data(), result.data(), partial.data(), sums.data(),
                      nullptr);
  return {result.values(), sums.values()};
}

double derivative(Gelu kind, double x) {
  const double pi = std::acos(-1.0);
  if (kind == Gelu::kErf)
    return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * pi);
  const double root = std::sqrt(2 / pi), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

template <class T>
void expect_reference(Gelu kind, int64_t rows, int64_t channels, int64_t shift, bool in_place) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
  const std::vector<float> values = normal(rows * channels, 4, 2), gradients = normal(rows * channels, 5);
  const Results results =
      in_every_order([&] { return run<T>(kind, values, gradients, rows, channels, shift, in_place); });
  const std::vector<double> x = rounded<T>(values), dy = rounded<T>(gradients);
  std::vector<double> dx, sums(static_cast<size_t>(channels)), sizes(sums);
  for (size_t i = 0; i < x.size(); ++i) {
    dx.push_back(dy[i] * derivative(kind, x[i]));
    sums[i % sums.size()] += dx.back();
    sizes[i % sums.size()] += std::abs(dy[i]);
  }
  expect_near(results[0], dx, kRounding<T> + 2e-6, 2e-6, "dx");
  for (size_t c = 0; c < sums.size(); ++c)
    ASSERT_NEAR(results[1][c], sums[c], kRounding<T> * std::abs(sums[c]) + 2e-6 * sizes[c]) << "column " << c;
}

TEST(GeluOnHost, ComputesItsGradientAndTheSumsOfIt) {
  for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
    for_types([&]<class T>(T) {
      expect_reference<T>(kind, 1, 1, 0, false);
      expect_reference<T>(kind, 3, 100, 0, true);
      expect_reference<T>(kind, 65, 264, 1, false);  // from an odd place
      expect_reference<T>(kind, 300, 77, 0, true);
      expect_reference<T>(kind, 1100, 136, 0, false);  // several rows for a part
      expect_reference<T>(kind, 2, 4360, 0, false);    // and several strips
    });
  }
}

TEST(GeluOnHost, IsZeroOrTheGradientFarFromZero) {
  for (const Gelu kind : {Gelu::kErf, Gelu::kTanh}) {
    const Results results = run<float>(kind, {-40, 40, -1e4f, 1e4f}, {3, 3, 3, 3}, 1, 4, 0, false);
    EXPECT_EQ(results[0], (std::vector<double>{-0.0, 3, -0.0, 3}));
  }
}

TEST(GeluOnHost, SumsAreZeroWithoutRows) {
  EXPECT_EQ(run<c10::BFloat16>(Gelu::kTanh, {}, {}, 0, 40, 0, false)[1], std::vector<double>(40));
  run<float>(Gelu::kErf, {}, {}, 9, 0, 0, false);
}

}  // namespace
}  // namespace weft::testing
