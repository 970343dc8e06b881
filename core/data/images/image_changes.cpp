#include "images/image_changes.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <numbers>
#include <optional>

#include "base/text.hpp"
#include "images/image_processing.hpp"
#include "loader/derived_dataset.hpp"
#include "weft/nn/field_names.hpp"

namespace weft::data {

namespace {

using nn::kLabelProbabilities, nn::kLabels, nn::kPixels;

// Added to the seed, so that these numbers do not repeat those of other draws for the same sample.
constexpr int64_t kChangesStream = 0x65726173, kMixturesStream = 0x6d697875;

// Draws a number from the gamma distribution of a shape of at least 1 (Marsaglia and Tsang, A simple method
// for generating gamma variables, 2000), with normal numbers of Box and Muller.
double draw_gamma(double shape, SampleRandom& random) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
    const double normal = radius * std::cos(2 * std::numbers::pi * random.unit());
    const double root = 1 + c * normal, v = root * root * root;
    const double uniform = 1 - random.unit();
    if (v > 0 && std::log(uniform) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return d * v;
  }
}

// Returns the logarithm of a number of any shape above 0, which may be too small for a double.
double draw_log_gamma(double shape, SampleRandom& random) {
  const double above = std::log(draw_gamma(shape + 1, random));
  return above + std::log(1 - random.unit()) / shape;
}

// Returns the rectangle that becomes 0, if one is drawn.
std::optional<Rectangle> draw_erased(double probability, ImageSize image, SampleRandom& random) {
  constexpr int kDraws = 10;
  constexpr double kSmallest = 0.02, kLargest = 0.33, kRatio = 0.3, kLargestRatio = 3.3;
  if (random.unit() >= probability) return std::nullopt;
  const auto area = static_cast<double>(image.height * image.width);
  for (int i = 0; i < kDraws; ++i) {
    const double erased = area * (kSmallest + (kLargest - kSmallest) * random.unit());
    const double ratio = kRatio * std::pow(kLargestRatio / kRatio, random.unit());
    const ImageSize size = {std::llround(std::sqrt(erased * ratio)), std::llround(std::sqrt(erased / ratio))};
    if (size.height >= image.height || size.width >= image.width) continue;
    const auto below = [&](int64_t bound) {
      return static_cast<int64_t>(draw_below(static_cast<uint64_t>(bound), random));
    };
    const int64_t top = below(image.height - size.height + 1);
    return Rectangle{top, below(image.width - size.width + 1), size};
  }
  return std::nullopt;
}

// Returns the part of `image` (C, H, W) in a rectangle.
at::Tensor part_of(const at::Tensor& image, const Rectangle& part) {
  return image.narrow(1, part.top, part.size.height).narrow(2, part.left, part.size.width);
}

// Returns a rectangle of the image's own size that may reach outside of it, where the result is 0.
at::Tensor moved(const at::Tensor& image, const Rectangle& from) {
  const at::Tensor result = at::zeros_like(image);
  const int64_t height = image.size(1) - std::abs(from.top), width = image.size(2) - std::abs(from.left);
  if (height <= 0 || width <= 0) return result;
  const auto read = [](int64_t begin) { return std::max<int64_t>(begin, 0); };
  part_of(result, {read(-from.top), read(-from.left), {height, width}})
      .copy_(part_of(image, {read(from.top), read(from.left), {height, width}}));
  return result;
}

// What a sample is mixed with: `share` of it, and the rest of sample `other`.
struct Mixture {
  int64_t other = 0;
  double share = 1;
  std::optional<Rectangle> pasted;  // the rectangle of `other`; nothing if all pixels are mixed
};

// Draws a rectangle of about 1 - share of the image around a pixel, cut off at the borders.
Rectangle draw_pasted(double share, ImageSize image, SampleRandom& random) {
  const auto drawn = [&](int64_t side) {
    return static_cast<int64_t>(draw_below(static_cast<uint64_t>(side), random));
  };
  const double half = 0.5 * std::sqrt(1 - share);
  const auto range = [&](int64_t side) {
    const int64_t middle = drawn(side), reach = static_cast<int64_t>(half * static_cast<double>(side));
    return std::pair(std::max<int64_t>(middle - reach, 0), std::min(middle + reach, side));
  };
  const auto [left, right] = range(image.width);
  const auto [top, bottom] = range(image.height);
  return {top, left, {bottom - top, right - left}};
}

class ChangedImages final : public DerivedDataset {
 public:
  ChangedImages(const std::shared_ptr<Dataset>& dataset, const ImageChanges& changes,
                const SettingName& called)
      : DerivedDataset(dataset, called), dataset_(dataset), changes_(changes) {
    ChangedImages::check(first_sample());
  }
  std::string objective() const override { return dataset_->objective(); }

 private:
  bool mixes() const { return changes_.mixup > 0 || changes_.cutmix > 0; }

  void check(const Batch& batch) const override {
    const at::Tensor* const pixels = batch.find(kPixels);
    if (pixels == nullptr || pixels->dim() != 4 || !pixels->is_floating_point())
      refuse(fmt::format(
          "the samples have no images, \"{}\" (samples, channels, height, width) of floating-point numbers, "
          "to change; leave out {}",
          kPixels, setting_name(first_change(changes_).c_str())));
    if (mixes()) check_labels(batch.find(kLabels), pixels->size(0));
  }

  void check_labels(const at::Tensor* labels, int64_t samples) const {
    const bool are_classes = labels != nullptr && isIntegralType(labels->scalar_type(), false) &&
                             labels->numel() == samples && changes_.num_labels > 0;
    if (!are_classes || !(labels->ge(0) & labels->lt(changes_.num_labels)).all().item<bool>())
      refuse(fmt::format(
          "{} mixes classes, so that each sample needs a label from 0 to {}, in \"{}\" (samples)",
          setting_name(changes_.mixup > 0 ? "mixup" : "cutmix"), changes_.num_labels - 1, kLabels));
  }

  void make(const std::vector<int64_t>& indices, int64_t epoch, Batch& batch) const override {
    const at::Tensor pixels = changed(batch.at(kPixels), indices, epoch);
    batch.set(kPixels, pixels);
    if (mixes()) mix(indices, epoch, batch);
  }

  // Returns a copy of the images of these samples, changed each by itself.
  at::Tensor changed(const at::Tensor& pixels, const std::vector<int64_t>& indices, int64_t epoch) const {
    const at::Tensor all = pixels.clone();
    const ImageSize size = {pixels.size(2), pixels.size(3)};
    for (size_t i = 0; i < indices.size(); ++i) {
      SampleRandom random(changes_.seed + kChangesStream, epoch, indices[i]);
      const at::Tensor image = all[static_cast<int64_t>(i)];
      if (changes_.crop_padding > 0)
        image.copy_(moved(image, draw_padded_crop(size, changes_.crop_padding, random)));
      if (changes_.random_flip && random.unit() < 0.5) image.copy_(image.flip(-1));
      if (changes_.random_erasing == 0) continue;
      if (const auto erased = draw_erased(changes_.random_erasing, size, random))
        part_of(image, *erased).zero_();
    }
    return all;
  }

  Mixture draw_mixture(int64_t index, int64_t epoch, ImageSize image) const {
    SampleRandom random(changes_.seed + kMixturesStream, epoch, index);
    Mixture mixture{.other = static_cast<int64_t>(draw_below(static_cast<uint64_t>(size()), random))};
    const bool both = changes_.mixup > 0 && changes_.cutmix > 0;
    const bool cuts = both ? random.unit() < 0.5 : changes_.cutmix > 0;
    mixture.share = draw_beta(cuts ? changes_.cutmix : changes_.mixup, random);
    if (!cuts) return mixture;
    mixture.pasted = draw_pasted(mixture.share, image, random);
    const ImageSize pasted = mixture.pasted->size;
    mixture.share = 1 - static_cast<double>(pasted.height * pasted.width) /
                            static_cast<double>(image.height * image.width);
    return mixture;
  }

  // Mixes each image of `batch`, which is changed already, and its label with those of another sample.
  void mix(const std::vector<int64_t>& indices, int64_t epoch, Batch& batch) const {
    const at::Tensor& pixels = batch.at(kPixels);
    std::vector<Mixture> mixtures;
    std::vector<int64_t> others;
    for (const int64_t index : indices) {
      mixtures.push_back(draw_mixture(index, epoch, {pixels.size(2), pixels.size(3)}));
      others.push_back(mixtures.back().other);
    }
    const Batch second = dataset_->get_in_epoch(others, epoch);
    check(second);
    if (second.at(kPixels).sizes() != pixels.sizes())
      refuse("images that are mixed differ in size; resize them (do_resize in preprocessor_config.json)");
    const at::Tensor pasted = changed(second.at(kPixels), others, epoch);
    const at::Tensor labels = batch.at(kLabels).to(at::kLong).clone();
    const at::Tensor first_labels = labels.reshape(-1), second_labels = second.at(kLabels).reshape(-1);
    const at::Tensor shares = at::zeros({pixels.size(0), changes_.num_labels}, at::TensorOptions(at::kFloat));
    for (int64_t i = 0; i < pixels.size(0); ++i) {
      const Mixture& mixture = mixtures[static_cast<size_t>(i)];
      if (mixture.pasted)
        part_of(pixels[i], *mixture.pasted).copy_(part_of(pasted[i], *mixture.pasted));
      else
        pixels[i].mul_(mixture.share).add_(pasted[i], 1 - mixture.share);
      const auto first_label = first_labels[i].item<int64_t>();
      const auto second_label = second_labels[i].item<int64_t>();
      shares[i][first_label] += mixture.share;
      shares[i][second_label] += 1 - mixture.share;
      if (mixture.share < 0.5) first_labels[i] = second_label;
    }
    batch.set(kLabelProbabilities, shares);
    batch.set(kLabels, labels);
  }

  const std::shared_ptr<Dataset> dataset_;
  const ImageChanges changes_;
};

}  // namespace

std::string first_change(const ImageChanges& changes) {
  if (changes.crop_padding != 0) return "crop_padding";
  if (changes.random_flip) return "flip";
  if (changes.random_erasing != 0) return "random_erasing";
  if (changes.mixup != 0) return "mixup";
  return changes.cutmix != 0 ? "cutmix" : "";
}

double draw_beta(double alpha, SampleRandom& random) {
  const double first = draw_log_gamma(alpha, random), second = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

std::shared_ptr<Dataset> with_image_changes(std::shared_ptr<Dataset> dataset, const ImageChanges& changes) {
  return with_image_changes(std::move(dataset), changes, own_name);
}

std::shared_ptr<Dataset> with_image_changes(std::shared_ptr<Dataset> dataset, const ImageChanges& changes,
                                            const SettingName& called) {
  if (!dataset) fail(WEFT_INVALID_ARGUMENT, "with_image_changes: no data set was given");
  if (changes.crop_padding < 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be at least 0", called("crop_padding"), changes.crop_padding);
  if (!(changes.random_erasing >= 0 && changes.random_erasing <= 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a probability from 0 to 1", called("random_erasing"),
         changes.random_erasing);
  for (const auto& [name, alpha] : {std::pair("mixup", changes.mixup), {"cutmix", changes.cutmix}})
    if (!(alpha >= 0 && std::isfinite(alpha)))
      fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a number of at least 0", called(name), alpha);
  return std::make_shared<ChangedImages>(dataset, changes, called);
}

}  // namespace weft::data
