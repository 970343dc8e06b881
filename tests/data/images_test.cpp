// Folders of images: their labels, parts, random changes, and files that are no images.
#include "weft/data/images.hpp"

#include <ATen/ATen.h>
#include <png.h>

#include <algorithm>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jpeglib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.hpp"
#include "images/auto_augment.hpp"
#include "images/image_folder.hpp"
#include "images/image_processing.hpp"
#include "loader/class_folder.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

std::string png_of(const Image& image) {
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size.width);
  header.height = static_cast<png_uint_32>(image.size.height);
  header.format = image.channels() == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&header, nullptr, &size, 0, image.pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&header, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr), 0);
  bytes.resize(size);
  return bytes;
}

std::string jpeg_of(const Image& image) {
  jpeg_error_mgr errors;
  jpeg_compress_struct info = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  Image copy = image;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = copy.row(info.next_scanline);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

// An image whose pixels tell their place, and `seed`.
Image picture(int64_t height, int64_t width, int seed = 0) {
  Image image(Image::Colours::kRgb, {height, width});
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((i * 7 + i / 50 * 13 + static_cast<size_t>(seed) * 29) % 251);
  return image;
}

class ImageFolder : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = root() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  // Writes `count` images of a class.
  void write_class(const std::string& name, int count) const {
    for (int i = 0; i < count; ++i) write(fmt::format("{}/{:03}.png", name, i), png_of(picture(10, 12, i)));
  }
  fs::path root() const { return fs::path(folder_.path()) / "images"; }
  std::shared_ptr<Dataset> open(ImageOptions options = {}) const {
    if (options.processing == ImageProcessing()) options.processing.size = {6, 6};
    return image_folder(root().string(), options);
  }
  // Returns the only image of the folder.
  at::Tensor only(const ImageOptions& options = {}) const {
    return open(options)->get({0}).at("pixel_values");
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(ImageFolder, RefusesFoldersThatAreNotOneFolderPerClass) {
  EXPECT_ERROR(open(), WEFT_NOT_FOUND, "such folder");
  fs::create_directories(root());
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "no classes", "FOLDER/CLASS/FILE");
  fs::create_directories(root() / "cat");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "cat: this class", "no images");
  write_class("cat", 1);
  write("cat/notes.txt", "x");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "cat/notes.txt", "no image");
  fs::remove(root() / "cat/notes.txt");
  fs::create_directories(root() / "cat/small");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "cat/small", "a class");
  fs::remove(root() / "cat/small");
  write("lost.JPG", "x");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "lost.JPG: this image", "no class");
  fs::remove(root() / "lost.JPG");
  write("README", "x");
  write("cat/.hidden", "x");
  EXPECT_EQ(open()->size(), 1);
}

TEST_F(ImageFolder, LabelsAreTheOrderOfTheNamesOrThoseOfTheModel) {
  write_class("dog", 2);
  write_class("cat", 1);
  ImageOptions options;
  options.num_labels = 1;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "\"dog\" is label 1 of 2 classes", "1 labels");
  options.num_labels = 4;
  options.label_of = {{"cat", 3}};
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "\"dog\"", "no class", "label2id");
  options.label_of["dog"] = 0;
  const at::Tensor given = open(options)->get({0, 1, 2}).at("labels");
  EXPECT_EQ(std::vector<int64_t>(given.const_data_ptr<int64_t>(), given.const_data_ptr<int64_t>() + 3),
            (std::vector<int64_t>{3, 0, 0}));
  const at::Tensor sorted = open()->get({2, 0}).at("labels");
  EXPECT_EQ(sorted.const_data_ptr<int64_t>()[0], 1);
  EXPECT_EQ(sorted.const_data_ptr<int64_t>()[1], 0);
  options.labels = false;
  EXPECT_FALSE(open(options)->get({0}).has("labels"));
}

TEST_F(ImageFolder, NamesFilesThatAreNoImagesOrDamaged) {
  const std::string png = png_of(picture(40, 40)), jpeg = jpeg_of(picture(40, 40));
  write("a/0.png", "GIF89a nothing");
  EXPECT_ERROR(only(), WEFT_INVALID_ARGUMENT, "a/0.png", "no JPEG or PNG image", "GIF89a");
  write("a/0.png", "");
  EXPECT_ERROR(only(), WEFT_INVALID_ARGUMENT, "a/0.png", "is empty");
  for (const std::string& whole : {png, jpeg}) {
    for (const size_t size : {size_t{4}, size_t{20}, whole.size() / 4, whole.size() / 2, whole.size() - 20}) {
      write("a/0.png", whole.substr(0, size));
      EXPECT_ERROR(only(), size < 8 && whole == png ? WEFT_INVALID_ARGUMENT : WEFT_DATA_LOSS, "a/0.png");
    }
    write("a/0.png", whole);
    EXPECT_EQ(only().sizes().vec(), (std::vector<int64_t>{1, 3, 6, 6}));
  }
}

// Big-endian integers of a PNG header and a JPEG frame, and the check sum of the former.
TEST_F(ImageFolder, RefusesSizesThatAFileCannotHold) {
  std::string png = png_of(picture(4, 4));
  const auto put = [](std::string& bytes, size_t at, uint32_t value, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> (8 * (count - 1 - i)));
  };
  const auto check_sum = [](std::string_view bytes) {
    uint32_t sum = 0xffffffffu;
    for (const char byte : bytes) {
      sum ^= static_cast<unsigned char>(byte);
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
  };
  for (const auto& [side, text] : {std::pair(900'000u, "178956970"), std::pair(10'000u, "not fit")}) {
    put(png, 16, side, 4);
    put(png, 20, side, 4);
    put(png, 29, check_sum(std::string_view(png).substr(12, 17)), 4);
    write("a/0.png", png);
    EXPECT_ERROR(only(), side > 10'000 ? WEFT_INVALID_ARGUMENT : WEFT_DATA_LOSS, "a/0.png", text);
  }
  std::string jpeg = jpeg_of(picture(4, 4));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const auto& [side, text] : {std::pair(65'000u, "178956970"), std::pair(9'000u, "not fit")}) {
    put(jpeg, frame + 5, side, 2);
    put(jpeg, frame + 7, side, 2);
    write("a/0.png", jpeg);
    EXPECT_ERROR(only(), side > 9'000 ? WEFT_INVALID_ARGUMENT : WEFT_DATA_LOSS, "a/0.png", text);
  }
}

TEST_F(ImageFolder, RefusesOptionsThatDoNotFitTogether) {
  write_class("a", 3);
  ImageOptions options;
  options.channels = 4;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "4 channels");
  options = {};
  options.random_crop = 1.5;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "random_crop is 1.5");
  options.random_crop = 0.5;
  options.processing.do_resize = false;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "random_crop", "no size");
  options = {};
  options.random_crop = 0.5;
  options.crop_padding = 1;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "crop_padding is 1", "random_crop");
  options = {};
  options.processing.image_mean = {1, 2};
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "image_mean has 2 numbers", "3 channels");
  options = {};
  options.processing.image_std = {0};
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "image_std", "number 0");
  options = {};
  options.processing.shortest_edge = 5;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "shortest_edge of 5", "do_center_crop");
  options = {};
  options.held_out = 1;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "held_out is 1, must be");
  options.held_out = 0.01;
  options.part = Part::kHeldOut;
  EXPECT_ERROR(open(options), WEFT_INVALID_ARGUMENT, "held_out 0.01");
  options = {};
  options.processing.do_resize = false;
  write("a/9.png", png_of(picture(7, 7)));
  EXPECT_ERROR(open(options)->get({0, 3}), WEFT_INVALID_ARGUMENT, "a/9.png", "has 7 x 7", "12 x 10");
}

TEST_F(ImageFolder, HoldsOutAShareOfEachClassByTheSeed) {
  const FileClass large{"a", [] {
                          std::vector<std::string> files;
                          for (int i = 0; i < 50; ++i) files.push_back(fmt::format("{:02}.png", i));
                          return files;
                        }()};
  const auto held = files_of_part(large, Part::kHeldOut, 0.2, 7);
  const auto rest = files_of_part(large, Part::kTraining, 0.2, 7);
  EXPECT_EQ(held.size(), 10u);
  EXPECT_EQ(rest.size(), 40u);
  EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end()));
  std::set<std::string> both(held.begin(), held.end());
  both.insert(rest.begin(), rest.end());
  EXPECT_EQ(both.size(), 50u);
  EXPECT_EQ(files_of_part(large, Part::kHeldOut, 0.2, 7), held);
  EXPECT_NE(files_of_part(large, Part::kHeldOut, 0.2, 8), held);
  EXPECT_NE(files_of_part({"b", large.files}, Part::kHeldOut, 0.2, 7), held);
  EXPECT_EQ(files_of_part({"c", {"only.png"}}, Part::kTraining, 0.9, 7).size(), 1u);
}

TEST_F(ImageFolder, RandomChangesDependOnSeedEpochAndSampleAlone) {
  write_class("a", 40);
  ImageOptions options;
  options.random_flip = true;
  options.random_crop = 0.2;
  options.auto_augment = AutoAugment::kCifar10;
  const auto dataset = open(options), again = open(options);
  std::vector<int64_t> all(40);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const auto pixels = [](const Dataset& from, const std::vector<int64_t>& indices, int64_t epoch) {
    return from.get_in_epoch(indices, epoch).at("pixel_values");
  };
  const at::Tensor first = pixels(*dataset, all, 0);
  EXPECT_TRUE(at::equal(pixels(*again, all, 0), first));
  EXPECT_TRUE(at::equal(pixels(*dataset, {7}, 0)[0], first[7]));
  EXPECT_FALSE(at::equal(pixels(*dataset, all, 1), first));
  options.seed = 43;
  EXPECT_FALSE(at::equal(pixels(*open(options), all, 0), first));
}

TEST_F(ImageFolder, PadsAndCropsBeforeValuesAreNormalised) {
  write_class("a", 30);
  ImageOptions options;
  const auto plain = open(options);
  options.crop_padding = 2;
  const auto cropped = open(options);
  int moved = 0;
  for (int64_t i = 0; i < 30; ++i) {
    // Black is -1.
    const at::Tensor padded = at::constant_pad_nd(plain->get({i}).at("pixel_values"), {2, 2, 2, 2}, -1);
    const at::Tensor found = cropped->get({i}).at("pixel_values");
    int matches = 0;
    for (int64_t top = 0; top <= 4; ++top)
      for (int64_t left = 0; left <= 4; ++left)
        if (at::equal(padded.narrow(2, top, 6).narrow(3, left, 6), found)) {
          ++matches;
          moved += top != 2 || left != 2 ? 1 : 0;
        }
    EXPECT_EQ(matches, 1);
  }
  EXPECT_GT(moved, 20);
}

TEST_F(ImageFolder, AutoAugmentAppliesWhatIsDrawn) {
  write_class("a", 20);
  ImageOptions options;
  options.processing.do_resize = options.processing.do_normalize = false;
  options.processing.rescale_factor = 1;
  for (const AutoAugment kind : {AutoAugment::kRandAugment, AutoAugment::kImageNet, AutoAugment::kCifar10}) {
    options.auto_augment = kind;
    const auto dataset = open(options);
    int changed = 0;
    for (int64_t i = 0; i < 20; ++i) {
      Image image = picture(10, 12, static_cast<int>(i));
      const Image before = image;
      SampleRandom random(options.seed + 0x666c6970, 3, i);
      for (const DrawnOperation& drawn : draw_operations(kind, image.size, random))
        apply(drawn.operation, drawn.magnitude, image);
      changed += image.pixels != before.pixels ? 1 : 0;
      const at::Tensor found =
          dataset->get_in_epoch({i}, 3).at("pixel_values")[0].permute({1, 2, 0}).to(at::kByte).contiguous();
      EXPECT_TRUE(std::equal(image.pixels.begin(), image.pixels.end(), found.const_data_ptr<uint8_t>()));
    }
    EXPECT_GT(changed, 8);
  }
}

TEST_F(ImageFolder, FlipsAboutHalfOfTheImages) {
  write_class("a", 100);
  ImageOptions options;
  const auto plain = open(options);
  options.random_flip = true;
  const auto flipped = open(options);
  int mirrored = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const at::Tensor before = plain->get({i}).at("pixel_values"),
                     after = flipped->get({i}).at("pixel_values");
    if (at::equal(before.flip({3}), after))
      ++mirrored;
    else
      EXPECT_TRUE(at::equal(before, after));
  }
  EXPECT_GT(mirrored, 30);
  EXPECT_LT(mirrored, 70);
}

TEST_F(ImageFolder, RandomCropsLieInTheImageAndHaveTheirShareOfIt) {
  for (const ImageSize image : {ImageSize{40, 60}, ImageSize{1, 300}, ImageSize{300, 2}, ImageSize{1, 1}})
    for (int64_t i = 0; i < 200; ++i) {
      SampleRandom random(1, 2, i);
      const Rectangle crop = draw_crop(image, 0.25, random);
      EXPECT_GE(crop.top, 0);
      EXPECT_GE(crop.left, 0);
      EXPECT_GE(std::min(crop.size.height, crop.size.width), 1);
      EXPECT_LE(crop.top + crop.size.height, image.height);
      EXPECT_LE(crop.left + crop.size.width, image.width);
      if (image.width == 60) {
        const auto share = static_cast<double>(crop.size.height * crop.size.width) / 2400;
        EXPECT_GT(share, 0.22);
      }
    }
}

}  // namespace
}  // namespace weft::data
