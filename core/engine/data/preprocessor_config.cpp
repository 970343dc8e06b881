// Reads preprocessor_config.json, which Hugging Face's image processors write.
#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "weft/data/images.hpp"

namespace weft::data {

namespace {

using nlohmann::json;

// Keys that change no pixel of the images of a folder, whatever their values.
constexpr std::array kWithoutEffect = {
    "_valid_processor_keys", "device",      "disable_grouping", "image_seq_length",
    "num_channels",          "pad_size",    "processor_class",  "return_tensors",
    "input_data_format",     "_auto_class",
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    constexpr size_t kLargest = size_t{1} << 20;
    values_ = parse_json(read_file(path, kLargest), path);
    if (!values_.is_object())
      fail(WEFT_INVALID_ARGUMENT, "{}: this is {}, must be an object", path_, json_kind(values_));
  }

  // Returns the value under a key and marks it as read. Null stands for a key that is not there.
  const json* find(const char* key) {
    read_.emplace_back(key);
    const auto found = values_.find(key);
    return found == values_.end() || found->is_null() ? nullptr : &*found;
  }
  void read(const char* key, bool& value) {
    if (const json* given = find(key)) {
      if (!given->is_boolean()) refuse(key, "must be true or false");
      value = given->get<bool>();
    }
  }
  void read(const char* key, double& value) {
    if (const json* given = find(key)) {
      if (!given->is_number()) refuse(key, "must be a number");
      value = given->get<double>();
    }
  }
  void read(const char* key, std::vector<double>& values) {
    const json* given = find(key);
    if (given == nullptr) return;
    const json list = given->is_array() ? *given : json::array({*given});
    if (list.empty() || !std::all_of(list.begin(), list.end(), [](const json& v) { return v.is_number(); }))
      refuse(key, "must be a number, or a list of one number for each channel");
    values = list.get<std::vector<double>>();
  }
  void read(const char* key, Resampling& value) {
    if (const json* given = find(key)) {
      if (!given->is_number_integer() || *given < 0 || *given > 5)
        refuse(key, "must be 0 (nearest), 1 (lanczos), 2 (bilinear), 3 (bicubic), 4 (box) or 5 (hamming)");
      value = static_cast<Resampling>(given->get<int>());
    }
  }
  // Reads an integer, [height, width], or an object of "height" and "width". If `edge` is not null, also an
  // object of "shortest_edge", which is an integer's meaning if `square` is false.
  void read(const char* key, ImageSize& size, int64_t* edge, bool square) {
    const json* given = find(key);
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
      refuse(key, fmt::format("must be an integer of pixels from 1 to 65536, or an object of \"height\" and "
                              "\"width\"{}",
                              edge == nullptr ? "" : ", or of \"shortest_edge\""));
    }
  }

  // Throws for another processor than these. Files of older versions name it as a feature extractor.
  void check_type(const std::vector<std::string>& processors) {
    for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
      const json* type = find(key);
      if (type == nullptr || processors.empty()) continue;
      std::string name = type->is_string() ? type->get<std::string>() : "";
      for (const std::string_view backend : {"Fast", "Pil"})
        if (name.ends_with(backend)) name.resize(name.size() - backend.size());
      if (std::find(processors.begin(), processors.end(), name) != processors.end()) continue;
      fail(WEFT_UNIMPLEMENTED,
           "{}: \"{}\" is {}, but for this model Weft does what {} does; if the steps are the same (resize, "
           "centre crop, rescale, normalise), write that name, and all their values",
           path_, key, shown(*type), processors.front());
    }
  }
  // Throws for a key that is not read and may change pixels.
  void check_rest() {
    if (const json* format = find("data_format"); format != nullptr && *format != "channels_first")
      refuse("data_format", "must be channels_first, as the model takes pixels");
    for (const auto& [key, value] : values_.items()) {
      const bool is_off = value.is_null() || value == false;
      const bool is_known =
          std::find(read_.begin(), read_.end(), key) != read_.end() ||
          std::find(kWithoutEffect.begin(), kWithoutEffect.end(), key) != kWithoutEffect.end();
      if (!is_known && !is_off)
        fail(WEFT_UNIMPLEMENTED,
             "{}: \"{}\" is {}, which Weft does not do to images; remove the key if it changes no pixel, or "
             "give processed images (pixel_values) in a .safetensors file",
             path_, printable(key, 60), shown(value));
    }
  }

 private:
  static bool is_side(const json& value) {
    return value.is_number_integer() && value >= 1 && value <= 1 << 16;
  }
  static std::string shown(const json& value) { return printable(value.dump(), 60); }
  [[noreturn]] void refuse(const char* key, const std::string& wanted) const {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, {}", path_, key, shown(values_.at(key)), wanted);
  }

  const std::string path_;
  json values_;
  std::vector<std::string> read_;
};

}  // namespace

ImageProcessing ImageProcessing::load(const std::string& path, const std::vector<std::string>& processors) {
  Reader reader(path);
  reader.check_type(processors);
  ImageProcessing processing;
  bool square = true;
  reader.read("default_to_square", square);
  reader.read("do_resize", processing.do_resize);
  reader.read("size", processing.size, &processing.shortest_edge, square);
  reader.read("resample", processing.resample);
  reader.read("do_center_crop", processing.do_center_crop);
  reader.read("crop_size", processing.crop_size, nullptr, true);
  reader.read("do_rescale", processing.do_rescale);
  reader.read("rescale_factor", processing.rescale_factor);
  reader.read("do_normalize", processing.do_normalize);
  reader.read("image_mean", processing.image_mean);
  reader.read("image_std", processing.image_std);
  reader.read("do_convert_rgb", processing.do_convert_rgb);
  reader.check_rest();
  return processing;
}

}  // namespace weft::data
