// Resizes images by convolution along rows and along columns. A filter has the width of `support` pixels of
// the input or of the output, whichever are larger, so that no pixel of a larger image is left out.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.hpp"
#include "images/image.hpp"

namespace weft::data {

namespace {

constexpr int kBits = 22;  // of a weight: a value of 8 bits and 2 bits for the sum are left of 32

double sinc(double x) {
  const double angle = x * std::numbers::pi;
  return x == 0 ? 1 : std::sin(angle) / angle;
}

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1 : 0;
}
double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}
double hamming(double x) {
  return std::abs(x) < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi)) : 0;
}
double lanczos(double x) {
  return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}
// Keys, Cubic convolution interpolation for digital image processing, 1981, with a = -1/2.
double cubic(double x) {
  constexpr double a = -0.5;
  const double t = std::abs(x);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

struct Filter {
  double (*weight)(double x);
  double support;
};

Filter filter_of(Resampling resampling) {
  switch (resampling) {
    case Resampling::kBox:
      return {box, 0.5};
    case Resampling::kBilinear:
      return {triangle, 1};
    case Resampling::kHamming:
      return {hamming, 1};
    case Resampling::kBicubic:
      return {cubic, 2};
    case Resampling::kLanczos:
      return {lanczos, 3};
    case Resampling::kNearest:
      break;
  }
  fail(WEFT_INTERNAL, "this resampling has no filter");
}

// The pixels of the input that make one of the output.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> taps_of(int64_t in, int64_t out, const Filter& filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), width = std::max(scale, 1.0);
  const double support = filter.support * width;
  std::vector<Taps> all(static_cast<size_t>(out));
  std::vector<double> weights;
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5)),
               last = std::min(in, static_cast<int64_t>(center + support + 0.5));
    double sum = 0;
    weights.clear();
    for (int64_t j = first; j < last; ++j) {
      weights.push_back(filter.weight((static_cast<double>(j) - center + 0.5) * (1 / width)));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    for (const double weight : weights)
      taps.weights.push_back(
          static_cast<int32_t>(std::lround((sum != 0 ? weight / sum : weight) * (1 << kBits))));
  }
  return all;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

Image resized_rows(const Image& image, int64_t width, const Filter& filter) {
  Image out(image.colours, {image.size.height, width});
  const std::vector<Taps> taps = taps_of(image.size.width, width, filter);
  const int64_t channels = image.channels();
  for (int64_t y = 0; y < image.size.height; ++y) {
    uint8_t* to = out.row(y);
    for (const Taps& tap : taps) {
      const uint8_t* const from = image.row(y) + tap.first * channels;
      for (int64_t c = 0; c < channels; ++c) {
        int32_t sum = 1 << (kBits - 1);
        for (size_t i = 0; i < tap.weights.size(); ++i)
          sum += tap.weights[i] * from[static_cast<int64_t>(i) * channels + c];
        *to++ = rounded(sum);
      }
    }
  }
  return out;
}

Image resized_columns(const Image& image, int64_t height, const Filter& filter) {
  Image out(image.colours, {height, image.size.width});
  const std::vector<Taps> taps = taps_of(image.size.height, height, filter);
  std::vector<int32_t> sums(static_cast<size_t>(image.row_bytes()));
  for (int64_t y = 0; y < height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (size_t i = 0; i < tap.weights.size(); ++i) {
      const uint8_t* const from = image.row(tap.first + static_cast<int64_t>(i));
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += tap.weights[i] * from[x];
    }
    std::transform(sums.begin(), sums.end(), out.row(y), rounded);
  }
  return out;
}

// Returns the pixel of the input at the middle of each pixel of the output. Pillow adds up the steps, so that
// their rounding decides where the middle is the border of two pixels.
std::vector<int64_t> nearest_pixels(int64_t in, int64_t out) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  std::vector<int64_t> found;
  double middle = step * 0.5;
  for (int64_t i = 0; i < out; ++i, middle += step)
    found.push_back(std::min(static_cast<int64_t>(middle), in - 1));
  return found;
}

Image resized_to_nearest(const Image& image, ImageSize size) {
  Image out(image.colours, size);
  const int64_t channels = image.channels();
  const std::vector<int64_t> rows = nearest_pixels(image.size.height, size.height),
                             columns = nearest_pixels(image.size.width, size.width);
  uint8_t* to = out.row(0);
  for (const int64_t row : rows)
    for (const int64_t column : columns) to = std::copy_n(image.row(row) + column * channels, channels, to);
  return out;
}

}  // namespace

Image resized(Image image, ImageSize size, Resampling resampling) {
  if (image.size == size) return image;
  if (resampling == Resampling::kNearest) return resized_to_nearest(image, size);
  const Filter filter = filter_of(resampling);
  // Pillow 13 begins with the columns where fewer pixels are left then. Where it rounds between them, the
  // order decides about the last bit, and about more where a filter overshoots.
  const int64_t narrower = image.size.width - size.width, lower = image.size.height - size.height;
  const bool columns_first = lower > 0 && lower > 2 * narrower;
  if (columns_first) image = resized_columns(image, size.height, filter);
  if (narrower != 0) image = resized_rows(image, size.width, filter);
  if (image.size.height != size.height) image = resized_columns(image, size.height, filter);
  return image;
}

}  // namespace weft::data
