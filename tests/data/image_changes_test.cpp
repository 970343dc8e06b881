// Random changes of images and mixtures of samples: what they do, and what they depend on.
#include "images/image_changes.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <numeric>

#include "images/auto_augment.hpp"
#include "images/image_processing.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

// Samples in memory.
class Samples final : public Dataset {
 public:
  explicit Samples(Batch all) : all_(std::move(all)) {}
  int64_t size() const override { return all_.samples(); }
  Batch get(const std::vector<int64_t>& indices) const override {
    Batch batch;
    for (const auto& [name, values] : all_) batch.set(name, values.index_select(0, at::tensor(indices)));
    return batch;
  }

 private:
  const Batch all_;
};

constexpr int64_t kSamples = 40, kHeight = 12, kWidth = 10;

std::vector<int64_t> all_of(int64_t count = kSamples) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Images of random values, with a label each.
Batch random_images() {
  at::manual_seed(3);
  return {{"pixel_values", at::rand({kSamples, 2, kHeight, kWidth}) + 0.5},
          {"labels", at::arange(kSamples, at::kLong) % 5}};
}
// Image i has the value i + 1 everywhere, and the label i.
Batch plain_images() {
  const at::Tensor numbers = at::arange(kSamples, at::kLong);
  return {{"pixel_values", (numbers + 1).to(at::kFloat).view({-1, 1, 1, 1}).expand({-1, 1, kHeight, kWidth})},
          {"labels", numbers}};
}

std::shared_ptr<Dataset> changed(Batch all, ImageChanges changes) {
  changes.num_labels = kSamples;
  return with_image_changes(std::make_shared<Samples>(std::move(all)), changes);
}

TEST(ImageChanges, RefuseWhatTheyCannotChange) {
  EXPECT_ERROR(changed(random_images(), {.random_erasing = 1.5}), WEFT_INVALID_ARGUMENT,
               "random_erasing is 1.5");
  EXPECT_ERROR(changed(random_images(), {.mixup = -1}), WEFT_INVALID_ARGUMENT, "mixup is -1");
  EXPECT_ERROR(changed(random_images(), {.cutmix = std::nan("")}), WEFT_INVALID_ARGUMENT, "cutmix is nan");
  EXPECT_ERROR(changed(random_images(), {.crop_padding = -2}), WEFT_INVALID_ARGUMENT, "crop_padding is -2");
  Batch batch = random_images();
  batch.set("labels", at::rand({kSamples, 5}));
  EXPECT_ERROR(changed(batch, {.mixup = 1}), WEFT_INVALID_ARGUMENT, "mixup", "\"labels\"");
  batch.set("labels", at::full({kSamples}, kSamples, at::kLong));
  EXPECT_ERROR(changed(batch, {.cutmix = 1}), WEFT_INVALID_ARGUMENT, "cutmix", "0 to 39");
  batch.erase("labels");
  EXPECT_ERROR(changed(batch, {.cutmix = 1}), WEFT_INVALID_ARGUMENT, "\"labels\"");
  batch.set("pixel_values", at::ones({kSamples, 3}));
  EXPECT_ERROR(changed(batch, {.random_flip = true}), WEFT_INVALID_ARGUMENT, "\"pixel_values\"", "flip");
}

TEST(ImageChanges, DependOnSeedEpochAndSampleAlone) {
  const ImageChanges changes[] = {{.crop_padding = 3}, {.random_flip = true},         {.random_erasing = 0.5},
                                  {.mixup = 1},        {.mixup = 0.3, .cutmix = 0.3}, {.cutmix = 1}};
  const at::Tensor before = random_images().at("pixel_values");
  for (const ImageChanges& change : changes) {
    SCOPED_TRACE(first_change(change));
    const auto dataset = changed(random_images(), change);
    const Batch all = dataset->get_in_epoch(all_of(), 1);
    const at::Tensor first = all.at("pixel_values");
    EXPECT_FALSE(at::equal(first, before));
    const Batch few = dataset->get_in_epoch({7, 3}, 1);
    for (const auto& [name, values] : few) {
      EXPECT_TRUE(at::equal(values[0], all.at(name)[7])) << name;
      EXPECT_TRUE(at::equal(values[1], all.at(name)[3])) << name;
    }
    EXPECT_FALSE(at::equal(dataset->get_in_epoch(all_of(), 2).at("pixel_values"), first));
    ImageChanges other = change;
    other.seed = 43;
    EXPECT_FALSE(
        at::equal(changed(random_images(), other)->get_in_epoch(all_of(), 1).at("pixel_values"), first));
    EXPECT_TRUE(at::equal(random_images().at("pixel_values"), before));  // the data itself stays
  }
}

TEST(ImageChanges, CropOneOfTheMovesWithinThePadding) {
  const at::Tensor before = random_images().at("pixel_values");
  const at::Tensor after = changed(random_images(), {.crop_padding = 2})->get(all_of()).at("pixel_values");
  std::map<std::pair<int64_t, int64_t>, int> moves;
  for (int64_t i = 0; i < kSamples; ++i) {
    const at::Tensor padded = at::constant_pad_nd(before[i], {2, 2, 2, 2});
    int found = 0;
    for (int64_t top = 0; top <= 4; ++top)
      for (int64_t left = 0; left <= 4; ++left)
        if (at::equal(padded.narrow(1, top, kHeight).narrow(2, left, kWidth), after[i])) {
          ++found;
          ++moves[{top, left}];
        }
    EXPECT_EQ(found, 1) << i;
  }
  EXPECT_GT(moves.size(), 12u);
  // More padding than the image is large.
  EXPECT_EQ(changed(random_images(), {.crop_padding = 100})->get({0}).at("pixel_values").size(2), kHeight);
}

TEST(ImageChanges, EraseARectangleOfItsShare) {
  const auto dataset = changed(random_images(), {.random_erasing = 0.5});
  int erased = 0;
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    const at::Tensor zeros = dataset->get_in_epoch(all_of(), epoch).at("pixel_values").eq(0);
    for (int64_t i = 0; i < kSamples; ++i) {
      const at::Tensor here = zeros[i][0];
      EXPECT_TRUE(at::equal(zeros[i][1], here));
      const auto count = here.sum().item<int64_t>();
      if (count == 0) continue;
      ++erased;
      const int64_t rows = here.any(1).sum().item<int64_t>(), columns = here.any(0).sum().item<int64_t>();
      EXPECT_EQ(count, rows * columns);  // a rectangle
      EXPECT_LE(static_cast<double>(count), 0.33 * kHeight * kWidth + kHeight);
    }
  }
  EXPECT_NEAR(erased / 400.0, 0.5, 0.1);
}

TEST(ImageChanges, MixupMixesImagesAndLabelsInTheSameShares) {
  const Batch batch = changed(plain_images(), {.mixup = 0.4})->get(all_of());
  const at::Tensor pixels = batch.at("pixel_values"), shares = batch.at("label_probabilities");
  EXPECT_EQ(shares.sizes(), (at::IntArrayRef{kSamples, kSamples}));
  EXPECT_TRUE(at::allclose(shares.sum(1), at::ones({kSamples})));
  EXPECT_TRUE(
      at::allclose(shares.mv(at::arange(1, kSamples + 1).to(at::kFloat)), pixels.mean({1, 2, 3}), 1e-4));
  EXPECT_TRUE(at::equal(pixels.amax({1, 2, 3}), pixels.amin({1, 2, 3})));
  EXPECT_TRUE(at::equal(shares.argmax(1), batch.at("labels")));
  EXPECT_GT(shares.gt(0).sum().item<int64_t>(), 60);
}

TEST(ImageChanges, CutmixPastesARectangleAndMixesLabelsByItsArea) {
  const Batch batch = changed(plain_images(), {.cutmix = 1})->get(all_of());
  const at::Tensor shares = batch.at("label_probabilities");
  EXPECT_TRUE(at::equal(shares.argmax(1), batch.at("labels")));
  int pasted = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const at::Tensor image = batch.at("pixel_values")[i][0], own = image.eq(static_cast<double>(i + 1));
    const at::Tensor other = own.logical_not();
    const auto count = other.sum().item<int64_t>();
    EXPECT_NEAR(shares[i][i].item<double>(), 1 - static_cast<double>(count) / (kHeight * kWidth), 1e-6);
    if (count == 0) continue;
    ++pasted;
    EXPECT_EQ(count, other.any(1).sum().item<int64_t>() * other.any(0).sum().item<int64_t>());
    const auto value = image.masked_select(other);
    EXPECT_TRUE(value.eq(value[0]).all().item<bool>());
    EXPECT_GT(shares[i][value[0].item<int64_t>() - 1].item<double>(), 0);
  }
  EXPECT_GT(pasted, 20);
}

TEST(ImageChanges, BothMixturesAreDrawnEqually) {
  const at::Tensor pixels =
      changed(plain_images(), {.mixup = 1, .cutmix = 1})->get(all_of()).at("pixel_values");
  const auto even = pixels.amax({1, 2, 3}).eq(pixels.amin({1, 2, 3})).sum().item<int64_t>();
  EXPECT_GT(even, 10);
  EXPECT_LT(even, 34);
}

TEST(ImageChanges, SharesHaveTheBetaDistribution) {
  for (const double alpha : {0.001, 0.2, 1.0, 3.0}) {
    SampleRandom random(1, 2, 3);
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double share = draw_beta(alpha, random);
      ASSERT_TRUE(share >= 0 && share <= 1) << share;
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.012) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.006) << alpha;
  }
}

TEST(AutoAugment, DrawsTheOperationsOfItsKindWithTheirMagnitudes) {
  std::map<PixelOperation, std::map<double, int>> found;
  SampleRandom random(5, 6, 7);
  for (int i = 0; i < 7000; ++i) {
    const auto drawn = draw_operations(AutoAugment::kRandAugment, {32, 64}, random);
    ASSERT_EQ(drawn.size(), 2u);
    for (const DrawnOperation& one : drawn) ++found[one.operation][one.magnitude];
  }
  EXPECT_EQ(found.size(), 14u);
  const auto expect_drawn = [&](PixelOperation operation, double magnitude, bool has_sign) {
    ASSERT_EQ(found.at(operation).size(), has_sign ? 2u : 1u);
    for (const auto& [value, count] : found.at(operation)) {
      EXPECT_NEAR(std::abs(value), magnitude, 1e-9);
      EXPECT_NEAR(count, has_sign ? 500 : 1000, 120);
    }
  };
  expect_drawn(PixelOperation::kIdentity, 0, false);
  expect_drawn(PixelOperation::kShearY, 0.09, true);
  expect_drawn(PixelOperation::kTranslateX, 150.0 / 331 * 64 * 0.3, true);
  expect_drawn(PixelOperation::kTranslateY, 150.0 / 331 * 32 * 0.3, true);
  expect_drawn(PixelOperation::kRotate, 9, true);
  expect_drawn(PixelOperation::kColor, 0.27, true);
  expect_drawn(PixelOperation::kPosterize, 7, false);
  expect_drawn(PixelOperation::kSolarize, 178.5, false);
  for (const AutoAugment kind : {AutoAugment::kImageNet, AutoAugment::kCifar10}) {
    int operations = 0;
    for (int i = 0; i < 1000; ++i)
      operations += static_cast<int>(draw_operations(kind, {32, 32}, random).size());
    EXPECT_GT(operations, 900);
    EXPECT_LT(operations, 1400);
  }
  EXPECT_TRUE(draw_operations(AutoAugment::kNone, {32, 32}, random).empty());
}

}  // namespace
}  // namespace weft::data
