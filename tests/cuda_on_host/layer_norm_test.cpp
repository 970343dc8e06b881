#include "cuda/layer_norm.hpp"

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
        bias(normal(channels, 9)),
        dy(normal(rows * channels, 8)),
        residual(normal(rows * channels, 10)) {
    for (float& value : x) value += 2;  // a mean, which the variance is without
  }
  int64_t rows, channels;
  std::vector<float> x, weight, bias, dy, residual;
};

// y, mean, scale, dx, dweight, dbias; without a residual in place.
template <class T>
Results run(const Input& input, int64_t shift, bool in_place) {
  const int64_t count = input.rows * input.channels;
  Buffer<T> x(input.x, shift), weight(input.weight), bias(input.bias), dy(input.dy), residual(input.residual),
      y(count, shift), dx(count), dweight(input.channels), dbias(input.channels);
  Buffer<float> mean(input.rows), scale(input.rows),
      partial(2 * cuda::layer_norm_parts(input.rows) * input.channels);
  cuda::layer_norm_forward(input.rows, input.channels, kEpsilon, x.data(), weight.data(), bias.data(),
                           y.data(), mean.data(), scale.data(), nullptr);
  T* const result = in_place ? dy.data() : dx.data();
  cuda::layer_norm_backward(input.rows, input.channels, x.data(), weight.data(), mean.data(), scale.data(),
                            dy.data(), in_place ? nullptr : residual.data(), result, partial.data(),
                            dweight.data(), dbias.data(), nullptr);
  return {y.values(),       mean.values(), scale.values(), in_place ? dy.values() : dx.values(),
          dweight.values(), dbias.values()};
}

template <class T>
void expect_reference(int64_t rows, int64_t channels, int64_t shift, bool in_place) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
  const Input input(rows, channels);
  const Results results = in_every_order([&] { return run<T>(input, shift, in_place); });
  const std::vector<double> x = rounded<T>(input.x), weight = rounded<T>(input.weight),
                            bias = rounded<T>(input.bias), dy = rounded<T>(input.dy),
                            residual = rounded<T>(input.residual);
  const double half_step = kRounding<T>;
  std::vector<double> weights(static_cast<size_t>(channels)), biases(weights), sizes(weights),
      sizes_of_bias(weights);
  for (int64_t row = 0; row < rows; ++row) {
    const double *const of_x = x.data() + row * channels, *const of_dy = dy.data() + row * channels;
    double mean = 0, squares = 0, sum = 0, products = 0, largest = 0;
    for (int64_t c = 0; c < channels; ++c) mean += of_x[c] / static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c) squares += (of_x[c] - mean) * (of_x[c] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(channels) + exact(kEpsilon));
    for (int64_t c = 0; c < channels; ++c) {
      const double g = of_dy[c] * weight[static_cast<size_t>(c)];
      sum += g / static_cast<double>(channels);
      products += g * (of_x[c] - mean) * scale / static_cast<double>(channels);
      largest = std::max(largest, std::abs(g));
    }
    ASSERT_NEAR(results[1][static_cast<size_t>(row)], mean, 1e-6 * (1 + std::abs(mean)));
    ASSERT_NEAR(results[2][static_cast<size_t>(row)], scale, 2e-6 * scale);
    for (int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<size_t>(row * channels + c), column = static_cast<size_t>(c);
      const double normal = (of_x[c] - mean) * scale;
      const double y = normal * weight[column] + bias[column];
      const double dx =
          scale * (of_dy[c] * weight[column] - sum - normal * products) + (in_place ? 0 : residual[at]);
      ASSERT_NEAR(results[0][at], y,
                  half_step * std::abs(y) + 2e-6 * (1 + scale) * (1 + std::abs(weight[column])));
      ASSERT_NEAR(results[3][at], dx, half_step * std::abs(dx) + 4e-6 * scale * (1 + largest));
      weights[column] += of_dy[c] * normal;
      biases[column] += of_dy[c];
      sizes[column] += std::abs(of_dy[c]) * (std::abs(normal) + scale);
      sizes_of_bias[column] += std::abs(of_dy[c]);
    }
  }
  for (size_t c = 0; c < weights.size(); ++c) {
    ASSERT_NEAR(results[4][c], weights[c], half_step * std::abs(weights[c]) + 2e-6 * sizes[c])
        << "dweight " << c;
    ASSERT_NEAR(results[5][c], biases[c], half_step * std::abs(biases[c]) + 1e-6 * sizes_of_bias[c])
        << "dbias " << c;
  }
}

TEST(LayerNormOnHost, ComputesItsGradients) {
  for_types([]<class T>(T) {
    expect_reference<T>(3, 100, 0, true);
    expect_reference<T>(20, 512, 0, false);
    expect_reference<T>(9, 777, 0, false);  // several elements for each thread
    expect_reference<T>(5, 64, 1, true);    // aligned rows in the wrong place
    expect_reference<T>(2, 2, 0, false);
    expect_reference<T>(3, 4352, 0, true);  // several vectors for each thread
  });
  expect_reference<float>(1, 1, 0, false);
}

TEST(LayerNormOnHost, AddsRowsOfManyBlocksInOneOrder) {
  // Several rows for a block, so that it needs both barriers of its sums: those of one vector for each thread
  // and those of more.
  expect_reference<float>(cuda::layer_norm_parts(600) + 100, 70, 0, true);
  expect_reference<float>(cuda::layer_norm_parts(600) + 100, 515, 0, true);
}

TEST(LayerNormOnHost, TakesAsManyChannelsAsItPromises) {
  for (const int64_t fewer : {0, 1, 8}) {
    SCOPED_TRACE(fewer);
    expect_reference<float>(1, cuda::kMostChannelsOfLayerNorm - fewer, 0, false);
    expect_reference<c10::BFloat16>(1, cuda::kMostChannelsOfLayerNorm - fewer, 1, false);
  }
}

TEST(LayerNormOnHost, HasPartsOfSeveralRows) {
  EXPECT_EQ(cuda::layer_norm_parts(0), 0);
  EXPECT_EQ(cuda::layer_norm_parts(7), 7);
  EXPECT_EQ(cuda::layer_norm_parts(8192), 512);
  EXPECT_EQ(cuda::layer_norm_parts(12800), 800);
  EXPECT_EQ(cuda::layer_norm_parts(INT64_MAX), 1024);
}

TEST(LayerNormOnHost, GivesTheSameGradientAlone) {
  for (const int64_t channels : {200, 4400}) {
    const Input input(5, channels);
    const Results results = run<float>(input, 0, false);
    Buffer<float> x(input.x), weight(input.weight), dy(input.dy), mean(results[1]), scale(results[2]),
        residual(input.residual), dx(5 * channels);
    cuda::layer_norm_backward<float>(5, channels, x.data(), weight.data(), mean.data(), scale.data(),
                                     dy.data(), residual.data(), dx.data(), nullptr, nullptr, nullptr,
                                     nullptr);
    expect_same({dx.values()}, {results[3]}, "dx");
  }
}

TEST(LayerNormOnHost, GradientsAreZeroWithoutRows) {
  const Results results = run<c10::BFloat16>(Input(0, 48), 0, false);
  EXPECT_EQ(results[4], std::vector<double>(48));
  EXPECT_EQ(results[5], std::vector<double>(48));
  run<float>(Input(3, 0), 0, false);
}

TEST(LayerNormOnHost, RefusesWhatABlockCannotHold) {
  constexpr int64_t kChannels = 25000;
  Buffer<float> x(kChannels), partial(2 * kChannels), mean(1), scale(1);
  float* const none = nullptr;
  EXPECT_THROW(
      cuda::layer_norm_backward(1, kChannels, x.data(), x.data(), mean.data(), scale.data(), x.data(), none,
                                x.data(), partial.data(), x.data(), x.data(), nullptr),
      std::invalid_argument);
  EXPECT_THROW(cuda::layer_norm_backward(1, 8, x.data(), x.data(), mean.data(), scale.data(), x.data(), none,
                                         x.data(), partial.data(), none, x.data(), nullptr),
               std::invalid_argument);
  EXPECT_THROW(cuda::layer_norm_backward(1, 8, x.data(), x.data(), mean.data(), scale.data(), x.data(), none,
                                         x.data(), none, none, x.data(), nullptr),
               std::invalid_argument);
}

}  // namespace
}  // namespace weft::testing
