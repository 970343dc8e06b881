// PNG, by libpng. Its errors leave it by longjmp, so that no exception crosses its frames. No function that
// calls setjmp has objects with destructors.
#include <png.h>

#include <cstdio>
#include <cstring>

#include "base/text.hpp"
#include "images/image.hpp"

namespace weft::data {

namespace {

class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail(WEFT_RESOURCE_EXHAUSTED, "libpng cannot begin to decode: there is no memory left");
    }
  }
  PngReader(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Return false for a file that cannot be read, of which error() tells the cause.
  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, read);
    png_read_info(png_, info_);
    return true;
  }
  // Makes libpng convert to 8 bits of grey or RGB, or of RGBA with `alpha`. Values of 16 bits keep their
  // upper 8.
  bool prepare(bool alpha) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    if (color_type() == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color_type() == PNG_COLOR_TYPE_GRAY && depth() < 8) png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_16(png_);
    if (alpha) {
      png_set_tRNS_to_alpha(png_);
      png_set_gray_to_rgb(png_);
    } else {
      png_set_strip_alpha(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read_pixels(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);  // checks what follows the pixels
    return true;
  }

  ImageSize size() const { return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}; }
  int color_type() const { return png_get_color_type(png_, info_); }
  bool has_alpha() const {
    return (color_type() & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  }
  int depth() const { return png_get_bit_depth(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  const char* error() const { return text_; }

 private:
  [[noreturn]] static void leave(png_structp png, png_const_charp text) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader.text_, sizeof(reader.text_), "%s", text);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep out, size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.rest_.size()) png_error(png, "it ends too early");
    std::memcpy(out, reader.rest_.data(), count);
    reader.rest_.remove_prefix(count);
  }

  std::string_view rest_;
  char text_[256] = {};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Image decode_png(std::string_view bytes, const std::string& name, bool keep_alpha) {
  PngReader reader(bytes);
  const auto refuse = [&] {
    fail(WEFT_DATA_LOSS, "{}: this PNG image cannot be decoded: {}; the file is damaged or was cut short",
         name, reader.error());
  };
  if (!reader.read_header()) refuse();
  if (reader.depth() == 16 && reader.color_type() == PNG_COLOR_TYPE_GRAY)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: this PNG image is grey with 16 bits, which Pillow cuts off at 255; scale it to 8 bits first",
         name);
  // Deflate makes at most 1032 bytes of one.
  const ImageSize size = reader.size();
  check_dimensions(name, size, bytes.size(),
                   static_cast<double>(size.height) * static_cast<double>(reader.row_bytes()) / 1032);
  const bool alpha = keep_alpha && reader.has_alpha();
  if (!reader.prepare(alpha)) refuse();
  using Colours = Image::Colours;
  Image image(alpha ? Colours::kRgba : reader.channels() == 1 ? Colours::kGrey : Colours::kRgb, size);
  if (reader.channels() != image.channels() || reader.row_bytes() != static_cast<size_t>(image.row_bytes()))
    fail(WEFT_INTERNAL, "{}: libpng gives {} channels in {} bytes a row", name, reader.channels(),
         reader.row_bytes());
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < size.height; ++y) rows.push_back(image.row(y));
  if (!reader.read_pixels(rows.data())) refuse();
  return image;
}

}  // namespace weft::data
