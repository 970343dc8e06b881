#include "images/image_processing.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace weft::data {

namespace {

constexpr int64_t kLongestSide = 1 << 16;
constexpr double kSmallestRatio = 3.0 / 4, kLargestRatio = 4.0 / 3;

void check_size(const std::string& origin, const char* name, ImageSize size) {
  if (std::min(size.height, size.width) >= 1 && std::max(size.height, size.width) <= kLongestSide) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: {} is {} x {} (height x width), each must be 1 to {}", origin, name,
       size.height, size.width, kLongestSide);
}

void check_channels(const std::string& origin, const char* name, const std::vector<double>& values,
                    int64_t channels) {
  if (values.size() != 1 && values.size() != static_cast<size_t>(channels))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} has {} numbers, must have one, or one for each of the {} channels of the model", origin,
         name, values.size(), channels);
  for (const double value : values)
    if (!std::isfinite(value) || (value == 0 && std::string_view(name) == "image_std"))
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has the number {}, by which images cannot be normalised", origin,
           name, value);
}

// Returns the size of an image whose shorter side becomes `edge`. The longer one is rounded down.
ImageSize with_shortest_edge(ImageSize image, int64_t edge) {
  if (image.width <= image.height) return {edge * image.height / image.width, edge};
  return {edge, edge * image.width / image.height};
}

double channel_of(const std::vector<double>& values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

}  // namespace

std::optional<ImageSize> ImageProcessing::output_size() const {
  if (do_center_crop) return crop_size;
  if (do_resize && shortest_edge == 0) return size;
  return std::nullopt;
}

void check_processing(const ImageProcessing& processing, int64_t channels, const std::string& origin) {
  if (processing.do_resize && processing.shortest_edge != 0)
    check_size(origin, "shortest_edge of size", {processing.shortest_edge, processing.shortest_edge});
  else if (processing.do_resize)
    check_size(origin, "size", processing.size);
  if (processing.do_resize && processing.shortest_edge != 0 && !processing.do_center_crop)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: size is a shortest_edge of {} and do_center_crop is false, so that images of other ratios would "
        "differ in size; set do_center_crop and crop_size, or a size of height and width",
        origin, processing.shortest_edge);
  if (processing.do_center_crop) check_size(origin, "crop_size", processing.crop_size);
  if (processing.do_rescale && !std::isfinite(processing.rescale_factor))
    fail(WEFT_INVALID_ARGUMENT, "{}: rescale_factor is {}, must be a finite number", origin,
         processing.rescale_factor);
  if (processing.do_convert_rgb && channels != 3)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: do_convert_rgb is true, but the model takes {} channel{}; set it to false", origin, channels,
         channels == 1 ? "" : "s");
  if (!processing.do_normalize) return;
  check_channels(origin, "image_mean", processing.image_mean, channels);
  check_channels(origin, "image_std", processing.image_std, channels);
}

Rectangle draw_crop(ImageSize image, double smallest_share, SampleRandom& random) {
  constexpr int kDraws = 10;
  const auto area = static_cast<double>(image.height) * static_cast<double>(image.width);
  for (int i = 0; i < kDraws; ++i) {
    const double share = smallest_share + (1 - smallest_share) * random.unit();
    const double ratio = kSmallestRatio * std::pow(kLargestRatio / kSmallestRatio, random.unit());
    const ImageSize size = {std::llround(std::sqrt(area * share / ratio)),
                            std::llround(std::sqrt(area * share * ratio))};
    if (size.height < 1 || size.width < 1 || size.height > image.height || size.width > image.width) continue;
    const auto below = [&](int64_t bound) {
      return static_cast<int64_t>(draw_below(static_cast<uint64_t>(bound), random));
    };
    const int64_t top = below(image.height - size.height + 1);
    return {top, below(image.width - size.width + 1), size};
  }
  ImageSize size = image;
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  if (width < kSmallestRatio * height) size.height = std::llround(width / kSmallestRatio);
  if (width > kLargestRatio * height) size.width = std::llround(height * kLargestRatio);
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size};
}

Rectangle draw_padded_crop(ImageSize image, int64_t padding, SampleRandom& random) {
  const auto places = static_cast<uint64_t>(2 * padding + 1);
  const int64_t top = static_cast<int64_t>(draw_below(places, random)) - padding;
  return {top, static_cast<int64_t>(draw_below(places, random)) - padding, image};
}

// As in Hugging Face: rescaled in double precision, normalised in single precision.
ImageProcessor::ImageProcessor(ImageProcessing processing, int64_t channels)
    : processing_(std::move(processing)), values_(static_cast<size_t>(channels)) {
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int bits = 0; bits < 256; ++bits) {
      const double scale = processing_.do_rescale ? processing_.rescale_factor : 1;
      auto value = static_cast<float>(bits * scale);
      if (processing_.do_normalize)
        value = (value - static_cast<float>(channel_of(processing_.image_mean, channel))) /
                static_cast<float>(channel_of(processing_.image_std, channel));
      values_[static_cast<size_t>(channel)].push_back(value);
    }
}

Image ImageProcessor::sized(Image image, const std::string& name) const {
  if (processing_.do_resize) {
    const ImageSize size = processing_.shortest_edge == 0
                               ? processing_.size
                               : with_shortest_edge(image.size, processing_.shortest_edge);
    if (std::max(size.height, size.width) > kLongestSide)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the image has {} x {} pixels (width x height), so that with a shortest_edge of {} its longer "
           "side would have more than {}; crop it first",
           name, image.size.width, image.size.height, processing_.shortest_edge, kLongestSide);
    image = resized(std::move(image), size, processing_.resample);
  }
  if (!processing_.do_center_crop) return image;
  const ImageSize crop = processing_.crop_size;
  // Rounded down, also where an image is smaller than the crop.
  const auto half = [](int64_t difference) { return difference >> 1; };
  return cropped(image, {half(image.size.height - crop.height), half(image.size.width - crop.width), crop});
}

Image ImageProcessor::fitted(Image image) const {
  return resized(std::move(image), *processing_.output_size(), processing_.resample);
}

void ImageProcessor::write(const Image& image, float* out) const {
  const auto pixels = static_cast<size_t>(image.size.height * image.size.width);
  for (size_t channel = 0; channel < values_.size(); ++channel)
    for (size_t i = 0; i < pixels; ++i) *out++ = values_[channel][image.pixels[i * values_.size() + channel]];
}

}  // namespace weft::data
