// Compares decoding, resizing and processing with Pillow and transformers (tests/oracles/images), and
// reads preprocessor_config.json.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "images/image_processing.hpp"
#include "images/pixel_operations.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::data {
namespace {

using nlohmann::json;

// What libjpeg rounds differently in its versions.
constexpr int kJpegTolerance = 1;

const json& oracle() {
  static const json values = json::parse(std::ifstream(WEFT_ORACLES "/images/images.json"));
  return values;
}

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count));
  }
  return bytes;
}

std::string file(const json& one) {
  return from_base64(oracle().at("files").at(one.at("file").get<std::string>()));
}

// Expects the pixels of hexadecimal text.
void expect_pixels(const Image& image, const std::string& text, int tolerance) {
  ASSERT_EQ(image.pixels.size() * 2, text.size());
  int most = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    most = std::max(most, std::abs(image.pixels[i] - std::stoi(text.substr(2 * i, 2), nullptr, 16)));
  EXPECT_LE(most, tolerance);
}

int tolerance_of(const std::string& name) {
  return name.ends_with(".jpeg") ? kJpegTolerance : 0;
}

TEST(Images, HaveThePixelsOfPillow) {
  ASSERT_EQ(oracle().at("decoded").size(), 26u);
  for (const json& one : oracle().at("decoded")) {
    const auto name = one.at("file").get<std::string>();
    SCOPED_TRACE(name + " " + one.at("channels").dump());
    const Image image = decode_image(file(one), name, one.at("channels").get<int64_t>());
    expect_pixels(image, one.at("pixels").get<std::string>(), tolerance_of(name));
  }
}

TEST(Images, AreResizedAsByPillow) {
  ASSERT_EQ(oracle().at("resized").size(), 60u);
  for (const json& one : oracle().at("resized")) {
    SCOPED_TRACE(one.at("filter").dump() + " " + one.at("height").dump() + " x " + one.at("width").dump());
    const Image image = resized(decode_image(file(one), "a.png", 3),
                                {one.at("height").get<int64_t>(), one.at("width").get<int64_t>()},
                                static_cast<Resampling>(one.at("filter").get<int>()));
    expect_pixels(image, one.at("pixels").get<std::string>(), 0);
  }
}

TEST(Images, AreChangedAsByPillow) {
  ASSERT_EQ(oracle().at("changed").size(), 56u);
  for (const json& one : oracle().at("changed")) {
    SCOPED_TRACE(one.at("name").dump() + " " + one.at("magnitude").dump() + " " + one.at("file").dump());
    Image image = decode_image(file(one), "a.png", one.at("channels").get<int64_t>());
    apply(static_cast<PixelOperation>(one.at("operation").get<int>()), one.at("magnitude").get<double>(),
          image);
    expect_pixels(image, one.at("pixels").get<std::string>(), 0);
  }
}

class PreprocessorConfig : public testing::Test {
 protected:
  std::string write(const json& config) const {
    std::ofstream(path_) << config.dump();
    return path_;
  }
  ImageProcessing load(const json& config) const {
    return ImageProcessing::load(write(config), {"AbcImageProcessor", "AbcFeatureExtractor"});
  }

 private:
  test::TemporaryFolder folder_;
  const std::string path_ = (std::filesystem::path(folder_.path()) / "preprocessor_config.json").string();
};

TEST_F(PreprocessorConfig, ProcessesAsTransformersDoes) {
  ASSERT_EQ(oracle().at("processed").size(), 10u);
  for (const json& one : oracle().at("processed")) {
    const auto name = one.at("file").get<std::string>();
    SCOPED_TRACE(name + " " + one.at("config").dump());
    const auto channels = one.at("channels").get<int64_t>();
    const ImageProcessing processing = load(one.at("config"));
    check_processing(processing, channels, "the file");
    const ImageProcessor processor(processing, channels);
    const Image image =
        processor.sized(decode_image(file(one), name, channels, processing.do_convert_rgb), name);
    EXPECT_EQ(image.size, *processing.output_size());
    std::vector<float> values(image.pixels.size());
    processor.write(image, values.data());
    size_t i = 0;
    for (const json& channel : one.at("values")) {
      // One step of 8 bits where the file is a JPEG, as normalised values have it.
      const double step = tolerance_of(name) * (processing.do_rescale ? processing.rescale_factor : 1) /
                          (processing.do_normalize ? processing.image_std[0] : 1);
      for (const json& value : channel) ASSERT_NEAR(values.at(i++), value.get<double>(), step + 5e-6);
    }
    EXPECT_EQ(i, values.size());
  }
}

TEST_F(PreprocessorConfig, RefusesWhatWouldChangePixels) {
  EXPECT_ERROR(load({{"image_processor_type", "XyzImageProcessor"}}), WEFT_UNIMPLEMENTED, "XyzImageProcessor",
               "AbcImageProcessor");
  EXPECT_ERROR(load({{"do_pad", true}}), WEFT_UNIMPLEMENTED, "\"do_pad\" is true");
  EXPECT_ERROR(load({{"crop_pct", 0.9}}), WEFT_UNIMPLEMENTED, "\"crop_pct\" is 0.9");
  EXPECT_ERROR(load({{"size", {{"shortest_edge", 4}, {"longest_edge", 9}}}}), WEFT_INVALID_ARGUMENT,
               "\"size\"", "longest_edge");
  EXPECT_ERROR(load({{"size", -4}}), WEFT_INVALID_ARGUMENT, "\"size\" is -4");
  EXPECT_ERROR(load({{"resample", 6}}), WEFT_INVALID_ARGUMENT, "\"resample\" is 6", "bilinear");
  EXPECT_ERROR(load({{"do_resize", 1}}), WEFT_INVALID_ARGUMENT, "\"do_resize\" is 1", "or false");
  EXPECT_ERROR(load({{"image_mean", {0.5, "x"}}}), WEFT_INVALID_ARGUMENT, "\"image_mean\"");
  EXPECT_ERROR(load({{"data_format", "channels_last"}}), WEFT_INVALID_ARGUMENT, "data_format");
  EXPECT_ERROR(load(json::array({1})), WEFT_INVALID_ARGUMENT, "an object");
  EXPECT_ERROR(ImageProcessing::load("nothing.json"), WEFT_NOT_FOUND, "nothing.json");
}

TEST_F(PreprocessorConfig, AcceptsKeysWithoutEffect) {
  const ImageProcessing processing = load({{"image_processor_type", "AbcImageProcessorFast"},
                                           {"feature_extractor_type", "AbcFeatureExtractor"},
                                           {"do_pad", false},
                                           {"crop_pct", nullptr},
                                           {"size", nullptr},
                                           {"processor_class", "AbcProcessor"},
                                           {"data_format", "channels_first"},
                                           {"resample", 3}});
  ImageProcessing expected;
  expected.resample = Resampling::kBicubic;
  EXPECT_EQ(processing, expected);
}

}  // namespace
}  // namespace weft::data
