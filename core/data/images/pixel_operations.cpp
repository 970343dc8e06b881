#include "images/pixel_operations.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace weft::data {

namespace {

// Where the pixel (x, y) of the result comes from: (a x + b y + c, d x + e y + f), of the middles of pixels.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

// Takes the nearest pixels, in fixed point of 16 bits as Pillow does.
void transform(const Affine& from, Image& image) {
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536 + 0.5)); };
  const auto [height, width] = image.size;
  const int64_t channels = image.channels();
  const Image source = std::move(image);
  image = Image(source.colours, source.size);
  for (int64_t y = 0; y < height; ++y) {
    int64_t at_x = fixed(from.c + from.a * 0.5 + from.b * 0.5) + y * fixed(from.b);
    int64_t at_y = fixed(from.f + from.d * 0.5 + from.e * 0.5) + y * fixed(from.e);
    uint8_t* out = image.row(y);
    for (int64_t x = 0; x < width; ++x, out += channels, at_x += fixed(from.a), at_y += fixed(from.d)) {
      const int64_t column = at_x >> 16, row = at_y >> 16;
      if (column < 0 || column >= width || row < 0 || row >= height) continue;
      std::copy_n(source.row(row) + column * channels, channels, out);
    }
  }
}

Affine rotation(double degrees, ImageSize size) {
  const double angle = -(degrees - 360 * std::floor(degrees / 360)) * std::numbers::pi / 180;
  const auto rounded = [](double value) { return std::round(value * 1e15) / 1e15; };
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(size.width) / 2, y = static_cast<double>(size.height) / 2;
  return {.a = cosine,
          .b = sine,
          .c = cosine * -x + sine * -y + x,
          .d = -sine,
          .e = cosine,
          .f = -sine * -x + cosine * -y + y};
}

// Returns first + share (second - first), in the precision of Pillow's blend().
uint8_t blended(uint8_t first, uint8_t second, float share) {
  const float value = static_cast<float>(first) + share * static_cast<float>(int{second} - int{first});
  return value <= 0 ? 0 : value >= 255 ? 255 : static_cast<uint8_t>(value);
}

// Blends `image` with `other`, of the same size and colours; a share of 1 leaves the image as it is.
void blend(const Image& other, double share, Image& image) {
  const auto factor = static_cast<float>(share);
  if (factor == 1) return;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = blended(other.pixels[i], image.pixels[i], factor);
}

Image grey_of(const Image& image) {
  return converted(converted(image, Image::Colours::kGrey), image.colours);
}

Image of_one_value(const Image& like, uint8_t value) {
  Image image(like.colours, like.size);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

Image mean_of(const Image& image) {
  const Image grey = converted(image, Image::Colours::kGrey);
  int64_t sum = 0;
  for (const uint8_t value : grey.pixels) sum += value;
  const double mean = static_cast<double>(sum) / static_cast<double>(grey.pixels.size());
  return of_one_value(image, static_cast<uint8_t>(mean + 0.5));
}

// Returns the image under a 3 x 3 filter with 5 in the middle and 1 around it. The border stays.
Image smoothed(const Image& image) {
  Image smooth = image;
  const auto [height, width] = image.size;
  const int64_t channels = image.channels();
  for (int64_t y = 1; y + 1 < height; ++y)
    for (int64_t i = channels; i < (width - 1) * channels; ++i) {
      int sum = 4 * image.row(y)[i];
      for (const int64_t row : {y - 1, y, y + 1})
        for (const int64_t step : {-channels, int64_t{0}, channels}) sum += image.row(row)[i + step];
      smooth.row(y)[i] = static_cast<uint8_t>((2 * sum + 13) / 26);
    }
  return smooth;
}

using Table = std::array<uint8_t, 256>;  // by value
using Histogram = std::array<int64_t, 256>;

template <class Function>
Table table_of(const Function& function) {
  Table table;
  for (int value = 0; value < 256; ++value)
    table[static_cast<size_t>(value)] =
        static_cast<uint8_t>(std::clamp<int64_t>(static_cast<int64_t>(function(value)), 0, 255));
  return table;
}

// Replaces the values of each channel by those in the table that `make` returns for its histogram.
template <class Make>
void look_up_by_channel(Image& image, const Make& make) {
  const auto channels = static_cast<size_t>(image.channels());
  for (size_t channel = 0; channel < channels; ++channel) {
    Histogram histogram = {};
    for (size_t i = channel; i < image.pixels.size(); i += channels) ++histogram[image.pixels[i]];
    const Table table = make(histogram);
    for (size_t i = channel; i < image.pixels.size(); i += channels) image.pixels[i] = table[image.pixels[i]];
  }
}

void look_up(Image& image, const Table& table) {
  for (uint8_t& value : image.pixels) value = table[value];
}

Table same() {
  return table_of([](int value) { return value; });
}

Table stretching(const Histogram& histogram) {
  const auto is_there = [](int64_t count) { return count != 0; };
  const auto low = std::find_if(histogram.begin(), histogram.end(), is_there) - histogram.begin();
  const auto high = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), is_there) - histogram.rbegin());
  if (high <= low) return same();
  const double scale = 255.0 / static_cast<double>(high - low), offset = -static_cast<double>(low) * scale;
  return table_of([&](int value) { return value * scale + offset; });
}

Table equalizing(const Histogram& histogram) {
  int64_t sum = 0, last = 0, different = 0;
  for (const int64_t count : histogram) {
    sum += count;
    if (count == 0) continue;
    last = count;
    ++different;
  }
  const int64_t step = (sum - last) / 255;
  if (different <= 1 || step == 0) return same();
  int64_t before = step / 2;
  return table_of([&](int value) {
    const int64_t level = before / step;
    before += histogram[static_cast<size_t>(value)];
    return level;
  });
}

}  // namespace

void apply(PixelOperation operation, double magnitude, Image& image) {
  switch (operation) {
    case PixelOperation::kIdentity:
      return;
    case PixelOperation::kShearX:
      return transform({.b = magnitude}, image);
    case PixelOperation::kShearY:
      return transform({.d = magnitude}, image);
    case PixelOperation::kTranslateX:
      return transform({.c = -std::trunc(magnitude)}, image);
    case PixelOperation::kTranslateY:
      return transform({.f = -std::trunc(magnitude)}, image);
    case PixelOperation::kRotate:
      return transform(rotation(magnitude, image.size), image);
    case PixelOperation::kBrightness:
      return blend(of_one_value(image, 0), 1 + magnitude, image);
    case PixelOperation::kColor:
      return blend(grey_of(image), 1 + magnitude, image);
    case PixelOperation::kContrast:
      return blend(mean_of(image), 1 + magnitude, image);
    case PixelOperation::kSharpness:
      return blend(smoothed(image), 1 + magnitude, image);
    case PixelOperation::kPosterize:
      return look_up(image, table_of([&](int value) {
                       return value & ~((1 << (8 - static_cast<int>(magnitude))) - 1);
                     }));
    case PixelOperation::kSolarize:
      return look_up(image, table_of([&](int value) { return value < magnitude ? value : 255 - value; }));
    case PixelOperation::kAutoContrast:
      return look_up_by_channel(image, stretching);
    case PixelOperation::kEqualize:
      return look_up_by_channel(image, equalizing);
    case PixelOperation::kInvert:
      return look_up(image, table_of([](int value) { return 255 - value; }));
  }
}

}  // namespace weft::data
