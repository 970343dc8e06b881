// An image in memory, and what decoders and filters do with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/images.hpp"

namespace weft::data {

// The pixels of an image, 8 bits per channel, row by row from the top, the channels of a pixel together.
struct Image {
  enum class Colours { kGrey, kRgb, kCmyk, kRgba };

  Colours colours = Colours::kRgb;
  ImageSize size;
  std::vector<uint8_t> pixels;

  Image() = default;
  Image(Colours colours, ImageSize size);

  int64_t channels() const;
  int64_t row_bytes() const { return size.width * channels(); }
  uint8_t* row(int64_t y) { return pixels.data() + y * row_bytes(); }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * row_bytes(); }
};

// Decode the bytes of a file. `name` is the file in messages. Throw DATA_LOSS for a file that is damaged or
// truncated, INVALID_ARGUMENT for one that is not decoded, or whose header claims more than 178 million
// pixels (which Pillow refuses too) or more than its bytes can hold.
Image decode_jpeg(std::string_view bytes, const std::string& name);
// With `keep_alpha` an image that has transparent pixels, or could have them, becomes RGBA.
Image decode_png(std::string_view bytes, const std::string& name, bool keep_alpha);
// Decodes a JPEG or PNG image, which it tells apart by their first bytes, as grey (1 channel) or RGB (3).
// `on_white` puts transparent pixels on a white background; otherwise transparency is dropped.
Image decode_image(std::string_view bytes, const std::string& name, int64_t channels, bool on_white = false);

// Throws INVALID_ARGUMENT for an image with too many pixels, or, in a file of `bytes`, with pixels that take
// at least `needed` bytes.
void check_dimensions(const std::string& name, ImageSize size, size_t bytes, double needed);

// Returns the image in another colour space, as Pillow's convert() does: grey is the luma of ITU-R 601, and
// CMYK becomes RGB without a colour profile. RGBA, which only decode_png() makes, is put on white.
Image converted(Image image, Image::Colours colours);

// A rectangle of an image, in pixels.
struct Rectangle {
  int64_t top = 0, left = 0;
  ImageSize size;
};
// Returns the rectangle of the image. Pixels outside of the image are 0.
Image cropped(const Image& image, const Rectangle& rectangle);
// Mirrors the image from left to right.
void flip(Image& image);
// Returns the image in another size, as Pillow's resize() does: along rows and along columns, in the order of
// Pillow 13, with weights of 22 bits and values rounded to 8 bits after each pass.
Image resized(Image image, ImageSize size, Resampling filter);

}  // namespace weft::data
