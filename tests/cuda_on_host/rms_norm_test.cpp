#include "cuda/rms_norm.hpp"

#include "cpu/rms_norm.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;

constexpr float kEpsilon = 1e-5f;

struct Input {
  Input(int64_t rows, int64_t channels)
      : rows(rows),
        channels(channels),
        x(normal(rows * channels, 6)),
        weight(normal(channels, 7)),
        dy(normal(rows * channels, 8)),
        residual(normal(rows * channels, 10)) {}
  int64_t rows, channels;
  std::vector<float> x, weight, dy, residual;
};

// y, scale, dx, dweight; without a residual in place.
template <class T>
Results run(const Input& input, int64_t shift, bool in_place) {
  const int64_t count = input.rows * input.channels;
  Buffer<T> x(input.x, shift), weight(input.weight), dy(input.dy), residual(input.residual), y(count, shift),
      dx(count), dweight(input.channels);
  Buffer<float> scale(input.rows), partial(cuda::rms_norm_parts(input.rows) * input.channels);
  cuda::rms_norm_forward(input.rows, input.channels, kEpsilon, x.data(), weight.data(), y.data(),
                         scale.data(), nullptr);
  T* const result = in_place ? dy.data() : dx.data();
  cuda::rms_norm_backward(input.rows, input.channels, x.data(), weight.data(), scale.data(), dy.data(),
                          in_place ? nullptr : residual.data(), result, partial.data(), dweight.data(),
                          nullptr);
  return {y.values(), scale.values(), in_place ? dy.values() : dx.values(), dweight.values()};
}

// The same in double, except that x scale is rounded as T.
template <class T>
void expect_reference(int64_t rows, int64_t channels, int64_t shift, bool in_place) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
  const Input input(rows, channels);
  const Results results = in_every_order([&] { return run<T>(input, shift, in_place); });
  const std::vector<double> x = rounded<T>(input.x), weight = rounded<T>(input.weight),
                            dy = rounded<T>(input.dy), residual = rounded<T>(input.residual);
  const double half_step = kRounding<T>;
  std::vector<double> sums(static_cast<size_t>(channels)), sizes(sums);
  for (int64_t row = 0; row < rows; ++row) {
    const double *const of_x = x.data() + row * channels, *const of_dy = dy.data() + row * channels;
    double squares = 0, products = 0, largest = 0;
    for (int64_t c = 0; c < channels; ++c) {
      squares += of_x[c] * of_x[c];
      products += of_dy[c] * weight[static_cast<size_t>(c)] * of_x[c];
      largest = std::max(largest, std::abs(of_dy[c] * weight[static_cast<size_t>(c)]));
    }
    const double scale = 1 / std::sqrt(squares / channels + exact(kEpsilon));
    ASSERT_NEAR(results[1][static_cast<size_t>(row)], scale, 1e-6 * scale);
    for (int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<size_t>(row * channels + c), column = static_cast<size_t>(c);
      const double y = of_x[c] * scale * weight[column];
      const double dx = scale * (of_dy[c] * weight[column] - of_x[c] * scale * scale * products / channels) +
                        (in_place ? 0 : residual[at]);
      ASSERT_NEAR(results[0][at], y, (2.1 * half_step + 1e-6) * std::abs(y) + 1e-7);
      ASSERT_NEAR(results[2][at], dx, half_step * std::abs(dx) + 2e-6 * scale * (1 + largest));
      sums[column] += of_dy[c] * of_x[c] * scale;
      sizes[column] += std::abs(of_dy[c] * of_x[c] * scale);
    }
  }
  for (size_t c = 0; c < sums.size(); ++c)
    ASSERT_NEAR(results[3][c], sums[c], half_step * std::abs(sums[c]) + 1e-6 * sizes[c]) << "dweight " << c;
}

TEST(RmsNormOnHost, ComputesItsGradients) {
  for_types([]<class T>(T) {
    expect_reference<T>(1, 1, 0, false);
    expect_reference<T>(3, 100, 0, true);
    expect_reference<T>(20, 512, 0, false);
    expect_reference<T>(9, 777, 0, false);
    expect_reference<T>(5, 64, 1, true);     // aligned rows in the wrong place
    expect_reference<T>(2, 4352, 0, false);  // several vectors for each thread
  });
}

TEST(RmsNormOnHost, AddsRowsOfManyBlocksInOneOrder) {
  // Several warps in a block and several rows for it, so that it needs both barriers of its sums.
  expect_reference<float>(cuda::rms_norm_parts(INT64_MAX) + 100, 300, 0, false);
}

TEST(RmsNormOnHost, AgreesWithTheCpu) {
  const Input input(13, 200);
  for_types([&]<class T>(T) {
    std::vector<T> x, weight, dy, residual;
    for (const float value : input.x) x.push_back(static_cast<T>(value));
    for (const float value : input.weight) weight.push_back(static_cast<T>(value));
    for (const float value : input.dy) dy.push_back(static_cast<T>(value));
    for (const float value : input.residual) residual.push_back(static_cast<T>(value));
    std::vector<T> y(x.size()), dx(x.size());
    std::vector<float> scale(13), dweight(200);
    kernels::rms_norm_forward<T>(13, 200, kEpsilon, x.data(), weight.data(), y.data(), scale.data());
    kernels::rms_norm_backward<T>(13, 200, x.data(), weight.data(), scale.data(), dy.data(), residual.data(),
                                  dx.data());
    kernels::rms_norm_weight_gradient<T>(13, 200, x.data(), scale.data(), dy.data(), dweight.data());
    const Results results = run<T>(input, 0, false);
    // Sums round differently, which can move a number to the next one of T.
    const double step = 2 * kRounding<T> + 1e-6;
    const auto doubles = [](const auto& values) {
      std::vector<double> result;
      for (const auto value : values) result.push_back(exact(value));
      return result;
    };
    expect_near(results[0], doubles(y), 2 * step, 1e-6, "y");
    expect_near(results[1], doubles(scale), 1e-6, 0, "scale");
    expect_near(results[2], doubles(dx), step, 3e-6, "dx");
    expect_near(results[3], doubles(dweight), step, 1e-5, "dweight");
  });
}

TEST(RmsNormOnHost, RefusesWhatABlockCannotHold) {
  constexpr int64_t kChannels = 50000;
  Buffer<float> x(kChannels), partial(kChannels), scale(1);
  float* const none = nullptr;
  EXPECT_THROW(cuda::rms_norm_backward(1, kChannels, x.data(), x.data(), scale.data(), x.data(), none,
                                       x.data(), partial.data(), x.data(), nullptr),
               std::invalid_argument);
  EXPECT_THROW(cuda::rms_norm_backward(1, 8, x.data(), x.data(), scale.data(), x.data(), none, x.data(),
                                       partial.data(), none, nullptr),
               std::invalid_argument);
}

}  // namespace
}  // namespace weft::testing
