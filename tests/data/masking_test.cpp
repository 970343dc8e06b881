// Labels that objectives make: their statistics, and that nothing but seed, epoch and sample decides them.
#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "loader/fingerprint.hpp"
#include "loader/objectives.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

using at::Tensor;

constexpr int64_t kVocabulary = 1000, kMask = 3, kLength = 128;
const std::vector<int64_t> kSpecial = {0, 1, 2};

// Ids that depend on the number of the sample: [1] text [2], or shorter with padding of 0.
class Sentences final : public Dataset {
 public:
  Sentences(int64_t size, bool with_mask) : size_(size), with_mask_(with_mask) {}
  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices) const override {
    std::vector<Tensor> rows, masks;
    for (const int64_t index : indices) {
      const Tensor ids = (at::arange(kLength) * 31 + index * 7) % (kVocabulary - 4) + 4;
      const int64_t length = kLength - index % 50;
      ids[0] = 1;
      ids[length - 1] = 2;
      // With a mask, padding has an id that is not special.
      ids.slice(0, length).fill_(with_mask_ ? 77 : 0);
      rows.push_back(ids);
      masks.push_back(at::arange(kLength).lt(length).to(at::kLong));
    }
    Batch batch;
    batch.set("input_ids", at::stack(rows));
    if (with_mask_) batch.set("attention_mask", at::stack(masks));
    return batch;
  }

 private:
  int64_t size_;
  bool with_mask_;
};

std::shared_ptr<Dataset> sentences(int64_t size = 400, bool with_mask = false) {
  return std::make_shared<Sentences>(size, with_mask);
}

// Four samples with the rows of these fields.
class Fields final : public Dataset {
 public:
  explicit Fields(Batch fields) : fields_(std::move(fields)) {}
  int64_t size() const override { return 4; }
  std::string name() const override { return "b.safetensors"; }
  Batch get(const std::vector<int64_t>& indices) const override {
    Batch batch;
    for (const auto& [name, tensor] : fields_)
      batch.set(name, tensor.index_select(0, at::tensor(indices, at::kLong)));
    return batch;
  }

 private:
  Batch fields_;
};

std::shared_ptr<Dataset> with_fields(Batch fields) {
  return std::make_shared<Fields>(std::move(fields));
}

TokenMasking masking(double probability = 0.15, int64_t seed = 5) {
  return {"input_ids", kVocabulary, kMask, kSpecial, probability, seed};
}

std::vector<int64_t> all(int64_t size) {
  std::vector<int64_t> indices(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) indices[static_cast<size_t>(i)] = i;
  return indices;
}

// Within 5 standard deviations of a binomial distribution: a right program fails once in 2 million times.
void expect_share(int64_t found, int64_t of, double probability, const char* what) {
  const double mean = static_cast<double>(of) * probability;
  EXPECT_NEAR(static_cast<double>(found), mean, 5 * std::sqrt(mean * (1 - probability)))
      << what << " of " << of;
}

int64_t count(const Tensor& true_where) {
  return true_where.sum().item<int64_t>();
}

TEST(MaskedTokens, AreAsManyAsBertHas) {
  const int64_t size = 2000;
  const Batch before = sentences(size)->get(all(size));
  for (const double probability : {0.15, 0.4}) {
    const Batch after = with_masked_tokens(sentences(size), masking(probability))->get(all(size));
    const Tensor &ids = before.at("input_ids"), &masked = after.at("input_ids"), &labels = after.at("labels");
    const Tensor chosen = labels.ne(-100), ordinary = ids.ge(4);
    EXPECT_TRUE(labels.masked_select(chosen).equal(ids.masked_select(chosen)));
    EXPECT_TRUE(masked.where(chosen, ids).equal(masked)) << "ids change only where there are labels";
    expect_share(count(chosen), count(ordinary), probability, "chosen");
    const int64_t labelled = count(chosen), became = count(chosen.logical_and(masked.eq(kMask))),
                  stayed = count(chosen.logical_and(masked.eq(ids)));
    // A random id is the mask or the token itself once in 1000 times.
    const double coincides = 0.1 / kVocabulary;
    expect_share(became, labelled, 0.8 + coincides, "masks");
    expect_share(stayed, labelled, 0.1 + coincides, "unchanged");
    expect_share(labelled - became - stayed, labelled, 0.1 - 2 * coincides, "random");
  }
}

TEST(MaskedTokens, ReplaceByEveryIdOfTheVocabulary) {
  TokenMasking small = masking(1);
  const int64_t size = 1000;
  const Batch after = with_masked_tokens(sentences(size), small)->get(all(size));
  const Tensor masked = after.at("input_ids"), labels = after.at("labels");
  const Tensor random =
      masked.masked_select(labels.ne(-100).logical_and(masked.ne(labels)).logical_and(masked.ne(kMask)));
  ASSERT_GT(random.numel(), 8000);
  const Tensor counts = random.bincount({}, kVocabulary);
  EXPECT_EQ(counts.numel(), kVocabulary);  // none beyond it
  // Chi-squared with 998 degrees of freedom (the mask is left out), 5 standard deviations.
  const double expected = static_cast<double>(random.numel()) / (kVocabulary - 1);
  const double chi = (counts.to(at::kDouble) - expected).square().sum().item<double>() / expected - expected;
  EXPECT_NEAR(chi, 998, 5 * std::sqrt(2 * 998.0));
}

TEST(MaskedTokens, AreNeitherSpecialNorPadding) {
  const int64_t size = 400;
  for (const bool with_mask : {false, true}) {
    const Batch before = sentences(size, with_mask)->get(all(size));
    const Batch after = with_masked_tokens(sentences(size, with_mask), masking(1))->get(all(size));
    const Tensor& ids = before.at("input_ids");
    Tensor ordinary = ids.ge(4);
    if (with_mask) ordinary = ordinary.logical_and(before.at("attention_mask").ne(0));
    // With a probability of 1 every other token has a label.
    EXPECT_TRUE(after.at("labels").ne(-100).equal(ordinary)) << with_mask;
    EXPECT_TRUE(
        ids.where(ordinary.logical_not(), 0).equal(after.at("input_ids").where(ordinary.logical_not(), 0)));
  }
  // The mask token in the data is special, too.
  TokenMasking of_77 = masking(1);
  of_77.mask_token_id = 77;
  const Batch after = with_masked_tokens(sentences(size, false), of_77)->get(all(size));
  const Tensor was_77 = sentences(size)->get(all(size)).at("input_ids").eq(77);
  EXPECT_GT(count(was_77), 0);
  EXPECT_TRUE(after.at("labels").masked_select(was_77).eq(-100).all().item<bool>());
}

// Otherwise a short batch could have no label, whose loss is undefined.
TEST(MaskedTokens, AreAtLeastOneInEachSampleThatHasOne) {
  const int64_t size = 400;
  const Batch after = with_masked_tokens(sentences(size), masking(1e-9))->get(all(size));
  const Tensor places = after.at("labels").ne(-100);
  EXPECT_TRUE(places.sum(1).eq(1).all().item<bool>());
  EXPECT_GT(std::get<0>(at::_unique(places.to(at::kLong).argmax(1))).numel(), 60) << "it is any of them";
  TokenMasking everything = masking();
  everything.special_ids = all(kVocabulary);
  EXPECT_EQ(count(with_masked_tokens(sentences(9), everything)->get(all(9)).at("labels").ne(-100)), 0);
}

TEST(MaskedTokens, DependOnSeedEpochAndSampleAlone) {
  const auto dataset = with_masked_tokens(sentences(), masking());
  const Batch whole = dataset->get_in_epoch(all(40), 3);
  for (const int64_t index : {17, 39, 0}) {
    const Batch alone = dataset->get_in_epoch({index}, 3);
    for (const char* field : {"input_ids", "labels"})
      EXPECT_TRUE(alone.at(field)[0].equal(whole.at(field)[index])) << field << " " << index;
  }
  const auto differs = [&](const Batch& other) { return !other.at("labels").equal(whole.at("labels")); };
  EXPECT_TRUE(differs(dataset->get_in_epoch(all(40), 4)));
  EXPECT_TRUE(differs(dataset->get(all(40))));  // epoch 0
  EXPECT_TRUE(differs(with_masked_tokens(sentences(), masking(0.15, 6))->get_in_epoch(all(40), 3)));
  // Samples of equal content are not masked alike.
  EXPECT_FALSE(whole.at("labels")[0].ne(-100).equal(whole.at("labels")[1].ne(-100)));
  EXPECT_NE(fingerprint(*dataset, 10), fingerprint(*sentences(), 10));
}

// A resumed run of a later version must go on with the same masks. These numbers are of another program, in
// Python.
TEST(MaskedTokens, AreThoseThatTheyHaveAlwaysBeen) {
  const Batch batch = with_masked_tokens(sentences(), masking())->get_in_epoch({12}, 2);
  const Tensor places = batch.at("labels")[0].ne(-100).nonzero().flatten();
  const Tensor ids = batch.at("input_ids")[0].index_select(0, places);
  const auto listed = [](const Tensor& values) {
    return std::vector<int64_t>(values.const_data_ptr<int64_t>(),
                                values.const_data_ptr<int64_t>() + values.numel());
  };
  EXPECT_EQ(listed(places.contiguous()),
            (std::vector<int64_t>{14, 18, 33, 34, 37, 44, 51, 57, 58, 79, 96, 97, 100, 101, 108}));
  EXPECT_EQ(listed(ids.contiguous()),
            (std::vector<int64_t>{3, 3, 3, 3, 3, 456, 3, 3, 3, 849, 3, 253, 3, 3, 3}));
}

// Returns the fields of an epoch's batches over all ranks, in order, without stand-ins.
std::vector<std::pair<Tensor, Tensor>> epoch_over(int64_t ranks, int64_t workers, Loader::Position from) {
  std::vector<Loader> loaders;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    LoaderOptions options;
    options.batch_size = 4;
    options.rank = rank;
    options.ranks = ranks;
    options.shuffle = true;
    options.num_workers = workers;
    loaders.emplace_back(with_masked_tokens(sentences(21), masking()), options);
    loaders.back().seek(from);
  }
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (;;) {
    std::vector<Tensor> ids, labels;
    bool more = false;
    for (Loader& loader : loaders) {
      Batch batch;
      more = loader.next(batch);
      if (!more || batch.empty) continue;
      ids.push_back(batch.at("input_ids"));
      labels.push_back(batch.at("labels"));
    }
    if (!more) return batches;
    batches.emplace_back(at::cat(ids), at::cat(labels));
  }
}

TEST(MaskedTokens, AreTheSameOnRanksWithWorkersAndAfterAResume) {
  const auto expected = epoch_over(1, 0, {1, 0});
  ASSERT_EQ(expected.size(), 6u);
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t workers : {0, 3})
      for (const int64_t done : {0, 2, 5}) {
        const auto found = epoch_over(ranks, workers, {1, done});
        ASSERT_EQ(found.size(), 6u - static_cast<size_t>(done));
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(found[i].first.equal(expected[i + static_cast<size_t>(done)].first)) << ranks;
          EXPECT_TRUE(found[i].second.equal(expected[i + static_cast<size_t>(done)].second)) << ranks;
        }
      }
  // They are those of the epoch that the loader is in.
  const std::vector<int64_t> order = shuffling_sampler(LoaderOptions().seed)->order(21, 1);
  const auto dataset = with_masked_tokens(sentences(21), masking());
  const Batch first = dataset->get_in_epoch({order.begin(), order.begin() + 4}, 1);
  EXPECT_TRUE(first.at("labels").equal(expected[0].second));
}

TEST(MaskedTokens, AreMadeOfIdsWithoutLabels) {
  struct Labelled final : Dataset {
    int64_t size() const override { return 2; }
    std::string name() const override { return "a.safetensors"; }
    Batch get(const std::vector<int64_t>& indices) const override {
      const Tensor ids = at::full({static_cast<int64_t>(indices.size()), 4}, 9, at::kLong);
      Batch batch;
      batch.set("input_ids", ids);
      batch.set("labels", same_tensor ? ids : ids.clone());
      return batch;
    }
    bool same_tensor = false;
  };
  const auto labelled = std::make_shared<Labelled>();
  EXPECT_ERROR(with_masked_tokens(labelled, masking()), WEFT_INVALID_ARGUMENT, "a.safetensors",
               "have \"labels\" already", "leave out");
  const SettingName flag = [](const std::string& setting) { return "--" + setting; };
  EXPECT_ERROR(with_next_tokens(labelled, "input_ids", flag), WEFT_INVALID_ARGUMENT,
               "have \"labels\" already", "leave out --objective");
  EXPECT_ERROR(with_masked_tokens(sentences(), {"decoder_ids", 9, 3, {}}), WEFT_INVALID_ARGUMENT,
               "no \"decoder_ids\"");
  labelled->same_tensor = true;  // as the windows of a text have them
  EXPECT_TRUE(with_masked_tokens(labelled, masking(1))->get({0}).at("labels").eq(9).all().item<bool>());
}

TEST(MaskedTokens, AreMadeOfIntegers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBool, at::kByte}) {
    const auto dataset = with_fields({{"input_ids", at::full({4, 6}, 1.5).to(dtype)}});
    for (const bool masks : {true, false})
      EXPECT_ERROR(masks ? with_masked_tokens(dataset, masking()) : with_next_tokens(dataset, "input_ids"),
                   WEFT_INVALID_ARGUMENT, "b.safetensors", "\"input_ids\"", c10::toString(dtype),
                   "must be int64 or int32");
  }
  const auto narrow = with_fields({{"input_ids", at::full({4, 6}, 9, at::kInt)}});
  EXPECT_TRUE(with_masked_tokens(narrow, masking(1))->get({3}).at("labels").eq(9).all().item<bool>());
}

TEST(MaskedTokens, HaveAMaskOfTheShapeOfTheIds) {
  const Tensor ids = at::full({4, 6}, 9, at::kLong);
  const std::vector<std::pair<std::vector<int64_t>, std::string>> wrong = {
      {{4, 1}, "[1, 1]"}, {{4, 5}, "[1, 5]"}, {{4, 6, 1}, "[1, 6, 1]"}, {{4}, "[1]"}};
  for (const auto& [shape, text] : wrong) {
    const auto dataset = with_fields({{"input_ids", ids}, {"attention_mask", at::ones(shape, at::kLong)}});
    for (const bool masks : {true, false})
      EXPECT_ERROR(masks ? with_masked_tokens(dataset, masking()) : with_next_tokens(dataset, "input_ids"),
                   WEFT_INVALID_ARGUMENT, "b.safetensors", "\"attention_mask\"", text, "\"input_ids\"",
                   "[1, 6]");
  }
}

// Whatever the data set is asked for, it returns one sample.
class OneSample final : public Dataset {
 public:
  int64_t size() const override { return 4; }
  Batch get(const std::vector<int64_t>&) const override {
    return {{"input_ids", at::full({1, 6}, 9, at::kLong)}, {"pixel_values", at::zeros({1, 3, 8, 8})}};
  }
};

TEST(DerivedDataset, NeedsTheSamplesThatItAskedFor) {
  const auto one = std::make_shared<OneSample>();
  for (const auto& dataset : {with_masked_tokens(one, masking()), with_next_tokens(one, "input_ids"),
                              with_masked_patches(one, {4, 4, 8, 0.6, 1})}) {
    EXPECT_EQ(dataset->size(), 4);
    EXPECT_EQ(dataset->get({2}).samples(), 1);
    EXPECT_ERROR(dataset->get({2, 3}), WEFT_INVALID_ARGUMENT, "the data", "returned 1 samples", "the 2");
  }
}

TEST(NextTokens, AreTheIdsWithoutPadding) {
  const Batch before = sentences(60, true)->get(all(60)),
              after = with_next_tokens(sentences(60, true), "input_ids")->get(all(60));
  EXPECT_TRUE(after.at("input_ids").equal(before.at("input_ids")));
  EXPECT_TRUE(
      after.at("labels").equal(before.at("input_ids").masked_fill(before.at("attention_mask").eq(0), -100)));
  EXPECT_EQ(with_next_tokens(sentences(), "input_ids")->objective(), "causal_lm");
}

// Images of 24 x 16 pixels, of 6 x 4 patches of 4 pixels.
class Images final : public Dataset {
 public:
  int64_t size() const override { return 300; }
  Batch get(const std::vector<int64_t>& indices) const override {
    Batch batch;
    batch.set("pixel_values", at::zeros({static_cast<int64_t>(indices.size()), 3, 24, 16}));
    return batch;
  }
};

TEST(MaskedPatches, AreWholeSquaresInTheAskedRatio) {
  const PatchMasking squares_of_8 = {4, 4, 8, 0.6, 1};
  const auto dataset = with_masked_patches(std::make_shared<Images>(), squares_of_8);
  const Tensor masks = dataset->get(all(300)).at("bool_masked_pos");
  ASSERT_EQ(masks.sizes().vec(), (std::vector<int64_t>{300, 24}));
  // 6 squares of 2 x 2 patches, of which ceil(3.6) = 4 are masked.
  EXPECT_TRUE(masks.sum(1).eq(16).all().item<bool>());
  const Tensor squares = masks.view({300, 3, 2, 2, 2}).transpose(2, 3).reshape({300, 6, 4});
  EXPECT_TRUE(squares.eq(squares.select(2, 0).unsqueeze(2)).all().item<bool>());
  // Each square is masked in 2 of 3 images.
  for (int64_t square = 0; square < 6; ++square)
    expect_share(squares.select(2, 0).select(1, square).sum().item<int64_t>(), 300, 2.0 / 3, "square");
  EXPECT_TRUE(dataset->get({7}).at("bool_masked_pos")[0].equal(masks[7]));
  EXPECT_FALSE(dataset->get_in_epoch(all(300), 1).at("bool_masked_pos").equal(masks));
}

TEST(MaskedPatches, AreRefusedWhereSquaresDoNotFit) {
  const auto images = std::make_shared<Images>();
  EXPECT_ERROR(with_masked_patches(images, {4, 4, 6, 0.6, 1}), WEFT_INVALID_ARGUMENT, "mask_patch_size is 6",
               "4 x 4");
  EXPECT_ERROR(with_masked_patches(images, {4, 4, 32, 0.6, 1}), WEFT_INVALID_ARGUMENT, "24 x 16",
               "side of 32", "(mask_patch_size)");
  const SettingName flag = [](const std::string& setting) { return "--" + setting; };
  for (const int64_t side : {6, 32})
    EXPECT_ERROR(with_masked_patches(images, {4, 4, side, 0.6, 1}, flag), WEFT_INVALID_ARGUMENT,
                 "--mask_patch_size");
  EXPECT_ERROR(with_masked_patches(images, {4, 4, 12, 0.6, 1}), WEFT_INVALID_ARGUMENT, "24 x 16",
               "side of 12");
  EXPECT_ERROR(with_masked_patches(sentences(), {4, 4, 8, 0.6, 1}), WEFT_INVALID_ARGUMENT, "no images",
               "pixel_values");
  EXPECT_ERROR(
      with_masked_patches(with_masked_patches(images, {4, 4, 8, 0.6, 1}), PatchMasking{4, 4, 8, 0.6, 1}),
      WEFT_INVALID_ARGUMENT, "\"bool_masked_pos\" already");
}

}  // namespace
}  // namespace weft::data
