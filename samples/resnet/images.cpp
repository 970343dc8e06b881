#include "images.hpp"

#include <ATen/ops/empty.h>
#include <weft/error.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace resnet {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kPixels = kSide * kSide, kBytes = 3 * kPixels, kRecord = 1 + kBytes;

// Images as bytes, which get() normalises by the mean and deviation of each channel of CIFAR-10.
class Images : public weft::data::Dataset {
 public:
  weft::Batch get(const std::vector<int64_t>& indices) const override {
    constexpr std::array<float, 3> kMean = {0.4914F, 0.4822F, 0.4465F},
                                   kDeviation = {0.2470F, 0.2435F, 0.2616F};
    const auto count = static_cast<int64_t>(indices.size());
    const at::Tensor pixels = at::empty({count, 3, kSide, kSide}), labels = at::empty({count}, at::kLong);
    auto* out = pixels.mutable_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
      std::array<unsigned char, kRecord> record = {};
      read(indices[static_cast<size_t>(i)], record.data());
      labels.mutable_data_ptr<int64_t>()[i] = record[0];
      for (int64_t at = 0; at < kBytes; ++at) {
        const auto channel = static_cast<size_t>(at / kPixels);
        const float value = static_cast<float>(record[static_cast<size_t>(1 + at)]) / 255;
        *out++ = (value - kMean[channel]) / kDeviation[channel];
      }
    }
    return {{"pixel_values", pixels}, {"labels", labels}};
  }

 private:
  // Writes the label and the pixels of an image, as CIFAR-10 has them.
  virtual void read(int64_t index, unsigned char* record) const = 0;
};

class Cifar10 final : public Images {
 public:
  Cifar10(const fs::path& folder, bool train) : name_(folder.string()) {
    std::vector<fs::path> files;
    for (int i = 1; train && i <= 5; ++i)
      files.push_back(folder / ("data_batch_" + std::to_string(i) + ".bin"));
    if (!train) files.push_back(folder / "test_batch.bin");
    for (const fs::path& file : files) add(file, file == files.front());
  }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()) / kRecord; }
  std::string name() const override { return name_; }

 private:
  // The first file must be there.
  void add(const fs::path& file, bool required) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream && !required) return;
    if (!stream)
      throw weft::Error(WEFT_NOT_FOUND,
                        file.string() + " is not there: give the folder cifar-10-batches-bin");
    bytes_.insert(bytes_.end(), std::istreambuf_iterator<char>(stream), {});
    const auto size = static_cast<int64_t>(bytes_.size());
    bool right = size > 0 && size % kRecord == 0;
    for (int64_t at = 0; right && at < size; at += kRecord)
      right = static_cast<unsigned char>(bytes_[static_cast<size_t>(at)]) < 10;
    if (!right)
      throw weft::Error(WEFT_DATA_LOSS, file.string() +
                                            " does not hold records of CIFAR-10: 1 byte, the label from "
                                            "0 to 9, and 3072 bytes of an image");
  }
  void read(int64_t index, unsigned char* record) const override {
    std::copy_n(bytes_.begin() + index * kRecord, kRecord, record);
  }

  const std::string name_;
  std::vector<char> bytes_;
};

class Digits final : public Images {
 public:
  Digits(int64_t count, int64_t seed) : count_(count), seed_(seed) {}
  int64_t size() const override { return count_; }
  std::string name() const override { return "digits"; }

 private:
  // The segments of each digit: top, upper left, upper right, middle, lower left, lower right, bottom.
  static constexpr std::array<const char*, 10> kSegments = {"1110111", "0010010", "1011101", "1011011",
                                                            "0111010", "1101011", "1101111", "1010010",
                                                            "1111111", "1111011"};

  void read(int64_t index, unsigned char* record) const override {
    std::mt19937 random(static_cast<uint32_t>(seed_ * 1'000'003 + index));  // the same numbers everywhere
    const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random() % bound); };
    const int64_t digit = index % 10, width = 8 + below(8), height = 14 + below(12), thick = 2 + below(2);
    const int64_t left = below(static_cast<uint32_t>(kSide - width)),
                  top = below(static_cast<uint32_t>(kSide - height));
    std::array<int64_t, 3> ink{}, paper{};
    for (size_t c = 0; c < 3; ++c) {
      ink[c] = 140 + below(90);
      paper[c] = 20 + below(90);
    }
    const int64_t middle = (height - thick) / 2;
    const auto is_ink = [&](int64_t y, int64_t x) {
      if (y < 0 || x < 0 || y >= height || x >= width) return false;
      const char* const on = kSegments[static_cast<size_t>(digit)];
      const bool upper = y < middle + thick, lower = y >= middle;
      const bool at_left = x < thick, at_right = x >= width - thick;
      return (on[0] == '1' && y < thick) || (on[3] == '1' && upper && lower) ||
             (on[6] == '1' && y >= height - thick) || (on[1] == '1' && at_left && upper) ||
             (on[2] == '1' && at_right && upper) || (on[4] == '1' && at_left && lower) ||
             (on[5] == '1' && at_right && lower);
    };
    *record++ = static_cast<unsigned char>(digit);
    for (size_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < kSide; ++y)
        for (int64_t x = 0; x < kSide; ++x)
          *record++ = static_cast<unsigned char>((is_ink(y - top, x - left) ? ink : paper)[c] + below(25));
  }

  const int64_t count_, seed_;
};

}  // namespace

std::shared_ptr<weft::data::Dataset> cifar10(const std::string& folder, bool train) {
  return std::make_shared<Cifar10>(folder, train);
}

std::shared_ptr<weft::data::Dataset> digits(int64_t count, int64_t seed) {
  return std::make_shared<Digits>(count, seed);
}

}  // namespace resnet
