// Reads the preprocessor_config.json of Hugging Face's image processors.
#include <algorithm>

#include "images/preprocessor_file.hpp"
#include "weft/data/images.hpp"

namespace weft::data {

namespace {

using nlohmann::json;

// Keys that change no pixel of the images of a folder, whatever their values.
const std::vector<std::string_view> kWithoutEffect = {
    "_valid_processor_keys", "device",      "disable_grouping", "image_seq_length",
    "num_channels",          "pad_size",    "processor_class",  "return_tensors",
    "input_data_format",     "_auto_class",
};

void read(PreprocessorFile& file, const char* key, std::vector<double>& values) {
  const json* given = file.find(key);
  if (given == nullptr) return;
  const json list = given->is_array() ? *given : json::array({*given});
  if (list.empty() || !std::all_of(list.begin(), list.end(), [](const json& v) { return v.is_number(); }))
    file.refuse(key, "must be a number, or a list of one number for each channel");
  values = list.get<std::vector<double>>();
}

void read(PreprocessorFile& file, const char* key, Resampling& value) {
  if (const json* given = file.find(key)) {
    if (!given->is_number_integer() || *given < 0 || *given > 5)
      file.refuse(key, "must be 0 (nearest), 1 (lanczos), 2 (bilinear), 3 (bicubic), 4 (box) or 5 (hamming)");
    value = static_cast<Resampling>(given->get<int>());
  }
}

bool is_side(const json& value) {
  return value.is_number_integer() && value >= 1 && value <= 1 << 16;
}

// Reads an integer, [height, width], or an object of "height" and "width". If `edge` is not null, also an
// object of "shortest_edge", which is an integer's meaning if `square` is false.
void read(PreprocessorFile& file, const char* key, ImageSize& size, int64_t* edge, bool square) {
  const json* given = file.find(key);
  if (given == nullptr) return;
  const json value = *given;
  if (is_side(value)) {
    if (square || edge == nullptr)
      size = {value.get<int64_t>(), value.get<int64_t>()};
    else
      *edge = value.get<int64_t>();
  } else if (value.is_array() && value.size() == 2 && is_side(value[0]) && is_side(value[1])) {
    size = {value[0].get<int64_t>(), value[1].get<int64_t>()};
  } else if (value.is_object() && value.size() == 2 && is_side(value.value("height", json())) &&
             is_side(value.value("width", json()))) {
    size = {value["height"].get<int64_t>(), value["width"].get<int64_t>()};
  } else if (edge != nullptr && value.is_object() && value.size() == 1 &&
             is_side(value.value("shortest_edge", json()))) {
    *edge = value["shortest_edge"].get<int64_t>();
  } else {
    file.refuse(key,
                fmt::format("must be an integer of pixels from 1 to 65536, or an object of \"height\" and "
                            "\"width\"{}",
                            edge == nullptr ? "" : ", or of \"shortest_edge\""));
  }
}

}  // namespace

ImageProcessing ImageProcessing::load(const std::string& path, const std::vector<std::string>& processors) {
  PreprocessorFile file(path);
  // Files of older versions name an image processor as a feature extractor.
  file.check_type(
      {"image_processor_type", "feature_extractor_type"}, processors, {"Fast", "Pil"},
      "if the steps are the same (resize, centre crop, rescale, normalise), write that name, and all "
      "their values");
  ImageProcessing processing;
  bool square = true;
  file.read("default_to_square", square);
  file.read("do_resize", processing.do_resize);
  read(file, "size", processing.size, &processing.shortest_edge, square);
  read(file, "resample", processing.resample);
  file.read("do_center_crop", processing.do_center_crop);
  read(file, "crop_size", processing.crop_size, nullptr, true);
  file.read("do_rescale", processing.do_rescale);
  file.read("rescale_factor", processing.rescale_factor);
  file.read("do_normalize", processing.do_normalize);
  read(file, "image_mean", processing.image_mean);
  read(file, "image_std", processing.image_std);
  file.read("do_convert_rgb", processing.do_convert_rgb);
  if (const json* format = file.find("data_format"); format != nullptr && *format != "channels_first")
    file.refuse("data_format", "must be channels_first, as the model takes pixels");
  file.check_rest(kWithoutEffect, "images",
                  "remove the key if it changes no pixel, or give processed images (pixel_values) in a "
                  ".safetensors file");
  return processing;
}

}  // namespace weft::data
