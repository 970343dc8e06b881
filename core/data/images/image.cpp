#include "images/image.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::data {

namespace {

using Colours = Image::Colours;

// Returns a b / 255, rounded.
int over_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// Makes a pixel of each pixel of `from`.
template <class Convert>
Image each_pixel(const Image& from, Colours colours, const Convert& convert) {
  Image to(colours, from.size);
  const uint8_t* in = from.pixels.data();
  for (uint8_t *out = to.row(0), *end = out + to.pixels.size(); out != end;
       out += to.channels(), in += from.channels())
    convert(in, out);
  return to;
}

Image rgb_of_cmyk(const Image& image) {
  return each_pixel(image, Colours::kRgb, [](const uint8_t* cmyk, uint8_t* rgb) {
    const int white = 255 - cmyk[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>(std::max(0, white - over_255(cmyk[c], white)));
  });
}

Image rgb_on_white(const Image& image) {
  return each_pixel(image, Colours::kRgb, [](const uint8_t* rgba, uint8_t* rgb) {
    for (int c = 0; c < 3; ++c) {
      const int product = rgba[c] * rgba[3] + 255 * (255 - rgba[3]) + 128;
      rgb[c] = static_cast<uint8_t>(((product >> 8) + product) >> 8);
    }
  });
}

}  // namespace

Image::Image(Colours colours, ImageSize size) : colours(colours), size(size) {
  pixels.resize(static_cast<size_t>(size.height * row_bytes()));
}

int64_t Image::channels() const {
  return colours == Colours::kGrey ? 1 : colours == Colours::kRgb ? 3 : 4;
}

void check_dimensions(const std::string& name, ImageSize size, size_t bytes, double needed) {
  constexpr int64_t kMostPixels = 178'956'970;  // twice Pillow's MAX_IMAGE_PIXELS
  if (size.height < 1 || size.width < 1 || size.height > kMostPixels / size.width)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the image has {} x {} pixels (width x height), must have 1 to {}; make it smaller", name,
         size.width, size.height, kMostPixels);
  if (static_cast<double>(bytes) < needed)
    fail(WEFT_DATA_LOSS,
         "{}: the header says {} x {} pixels, which do not fit in a file of {} bytes; the file is damaged or "
         "was cut short",
         name, size.width, size.height, bytes);
}

Image converted(Image image, Colours colours) {
  if (image.colours == Colours::kRgba) image = rgb_on_white(image);
  if (image.colours == Colours::kCmyk && colours != Colours::kCmyk) image = rgb_of_cmyk(image);
  if (image.colours == colours) return image;
  if (colours == Colours::kGrey)
    return each_pixel(image, colours, [](const uint8_t* rgb, uint8_t* grey) { *grey = luma(rgb); });
  return each_pixel(image, colours, [](const uint8_t* grey, uint8_t* rgb) { std::fill_n(rgb, 3, *grey); });
}

Image decode_image(std::string_view bytes, const std::string& name, int64_t channels, bool on_white) {
  const Colours colours = channels == 1 ? Colours::kGrey : Colours::kRgb;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return converted(decode_png(bytes, name, on_white), colours);
  if (bytes.starts_with("\xff\xd8\xff")) return converted(decode_jpeg(bytes, name), colours);
  fail(WEFT_INVALID_ARGUMENT, "{}: {}; an image must be JPEG or PNG", name,
       bytes.empty() ? "the file is empty"
                     : fmt::format("this is no JPEG or PNG image, it begins with \"{}\"",
                                   printable(bytes.substr(0, 8))));
}

Image cropped(const Image& image, const Rectangle& rectangle) {
  Image out(image.colours, rectangle.size);
  const int64_t first = std::max<int64_t>(0, -rectangle.left),
                last = std::min(rectangle.size.width, image.size.width - rectangle.left);
  if (first >= last) return out;
  for (int64_t y = 0; y < rectangle.size.height; ++y) {
    const int64_t from = y + rectangle.top;
    if (from < 0 || from >= image.size.height) continue;
    std::copy_n(image.row(from) + (rectangle.left + first) * image.channels(),
                (last - first) * image.channels(), out.row(y) + first * image.channels());
  }
  return out;
}

void flip(Image& image) {
  const int64_t channels = image.channels();
  for (int64_t y = 0; y < image.size.height; ++y) {
    uint8_t* const row = image.row(y);
    for (int64_t left = 0, right = image.size.width - 1; left < right; ++left, --right)
      std::swap_ranges(row + left * channels, row + (left + 1) * channels, row + right * channels);
  }
}

}  // namespace weft::data
