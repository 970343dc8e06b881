// JPEG, by libjpeg. Its errors leave it by longjmp, so that no exception crosses its frames. No function that
// calls setjmp has objects with destructors.
#include <csetjmp>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jerror.h>
#include <jpeglib.h>

#include "base/text.hpp"
#include "images/image.hpp"

namespace weft::data {

namespace {

class JpegReader {
 public:
  explicit JpegReader(std::string_view bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = take_warning;
    errors_.manager.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = check_scans;
  }
  JpegReader(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&info_); }

  // Return false for a file that cannot be read, of which error() tells the cause.
  bool read_header() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.mem->max_memory_to_use = kMostMemory;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  // Reads the image in `space` into `rows`, which are adjacent.
  bool read_pixels(J_COLOR_SPACE space, uint8_t* rows, int64_t row_bytes) {
    if (setjmp(errors_.jump) != 0) return false;
    info_.out_color_space = space;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = rows + static_cast<int64_t>(info_.output_scanline) * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    return true;
  }

  ImageSize size() const { return {info_.image_height, info_.image_width}; }
  int components() const { return info_.num_components; }
  const char* error() const { return errors_.text; }

 private:
  static constexpr long kMostMemory = 1L << 30;  // NOLINT(google-runtime-int): libjpeg's type
  static constexpr int kMostScans = 1000;        // damaged or hostile files repeat scans, which takes time

  struct Errors {
    jpeg_error_mgr manager;  // first: libjpeg knows this structure by its address
    std::jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
  };

  static Errors& errors_of(j_common_ptr info) { return *reinterpret_cast<Errors*>(info->err); }
  [[noreturn]] static void leave(j_common_ptr info) {
    Errors& errors = errors_of(info);
    info->err->format_message(info, errors.text);
    std::longjmp(errors.jump, 1);
  }
  // The end of the file is only a warning to libjpeg, which makes up the missing pixels.
  static void take_warning(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
  }
  static void check_scans(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    Errors& errors = errors_of(info);
    std::snprintf(errors.text, sizeof(errors.text), "it has more than %d scans", kMostScans);
    std::longjmp(errors.jump, 1);
  }

  const std::string_view bytes_;
  Errors errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct info_ = {};
};

}  // namespace

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  JpegReader reader(bytes);
  const auto refuse = [&] {
    fail(WEFT_DATA_LOSS, "{}: this JPEG image cannot be decoded: {}; the file is damaged or was cut short",
         name, reader.error());
  };
  if (!reader.read_header()) refuse();
  Image::Colours colours = Image::Colours::kGrey;
  J_COLOR_SPACE space = JCS_GRAYSCALE;
  switch (reader.components()) {
    case 1:
      break;
    case 3:
      colours = Image::Colours::kRgb;
      space = JCS_RGB;
      break;
    case 4:
      colours = Image::Colours::kCmyk;
      space = JCS_CMYK;
      break;
    default:
      fail(WEFT_INVALID_ARGUMENT,
           "{}: this JPEG image has {} channels, must have 1, 3 or 4; convert it to RGB", name,
           reader.components());
  }
  // A block of 8 x 8 pixels takes one bit or more, unless arithmetic coding, which is rare, predicts it.
  const ImageSize size = reader.size();
  check_dimensions(name, size, bytes.size(), static_cast<double>(size.height * size.width) / 1024);
  Image image(colours, size);
  if (!reader.read_pixels(space, image.row(0), image.row_bytes())) refuse();
  // As in Pillow all four channels count as inverted, which is how Adobe's programs write them.
  if (colours == Image::Colours::kCmyk)
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(255 - value);
  return image;
}

}  // namespace weft::data
