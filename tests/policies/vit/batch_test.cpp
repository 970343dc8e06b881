// What input() refuses, and the State that it returns; losses and counts that the oracles do not cover.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

constexpr const char* kMasked = "ViTForMaskedImageModeling";
constexpr const char* kClassifier = "ViTForImageClassification";

const Config kTiny = Config::parse(
    R"({"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12,
        "image_size": 6, "patch_size": 2, "encoder_stride": 2, "num_labels": 3})",
    "config.json");

std::shared_ptr<nn::Model> tiny(std::string_view architecture, const Config& config = kTiny) {
  const auto model = make_model(config, architecture);
  bind_random(*model, 1);
  return model;
}

at::Tensor pixels(int64_t samples, int64_t height = 6, int64_t width = 6) {
  return at::arange(samples * 3 * height * width)
      .remainder(17)
      .div(8)
      .sub(1)
      .view({samples, 3, height, width});
}

Batch batch(std::initializer_list<State::Field> fields) {
  return Batch(fields);
}

TEST(VitInput, RefusesUnknownFieldsWithTheNearest) {
  EXPECT_ERROR(tiny("ViTModel")->input(batch({{"pixel_value", pixels(2)}})), WEFT_INVALID_ARGUMENT,
               "ViTModel", "did you mean \"pixel_values\"?");
  EXPECT_ERROR(tiny("ViTModel")->input(batch({{"pixel_values", pixels(2)}, {"labels", at::zeros({2})}})),
               WEFT_INVALID_ARGUMENT, "no input \"labels\"");
  for (const char* architecture : {"ViTModel", kClassifier})
    EXPECT_ERROR(tiny(architecture)
                     ->input(batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", at::zeros({2, 9})}})),
                 WEFT_INVALID_ARGUMENT, architecture, "no input \"bool_masked_pos\"");
  EXPECT_ERROR(
      tiny("ViTModel")->input(batch({{"pixel_values", pixels(2)}, {"attention_mask", at::ones({2, 10})}})),
      WEFT_INVALID_ARGUMENT, "no input \"attention_mask\"");
  EXPECT_ERROR(tiny(kClassifier)->input(batch({{"labels", at::zeros({2}, at::kLong)}})),
               WEFT_INVALID_ARGUMENT, "the batch has no \"pixel_values\"");
}

TEST(VitInput, RefusesWrongPixels) {
  const auto expect_refusal = [](const at::Tensor& wrong, auto... parts) {
    EXPECT_ERROR(tiny("ViTModel")->input(batch({{"pixel_values", wrong}})), WEFT_INVALID_ARGUMENT,
                 "pixel_values", parts...);
  };
  expect_refusal(at::zeros({2, 3, 6, 6}, at::kLong), "floating point");
  expect_refusal(pixels(2, 6, 8), "[2, 3, 6, 8]", "[images, 3, 6, 6]", "\"interpolate_pos_encoding\"");
  expect_refusal(at::zeros({2, 1, 6, 6}), "[2, 1, 6, 6]");
  expect_refusal(at::zeros({3, 6, 6}), "[3, 6, 6]");
  expect_refusal(at::zeros({0, 3, 6, 6}), "no samples");
}

TEST(VitInput, TakesImagesOfOtherSizesIfAsked) {
  const Config config = kTiny.with_json("interpolate_pos_encoding", "true");
  const auto model = tiny("ViTModel", config);
  EXPECT_EQ(run(*model, batch({{"pixel_values", pixels(2, 4, 9)}})).at("last_hidden_state").sizes(),
            (at::IntArrayRef{2, 2 * 4 + 1, 8}));
  const at::Tensor same = run(*model, batch({{"pixel_values", pixels(2)}})).at("last_hidden_state");
  EXPECT_TRUE(
      run(*tiny("ViTModel"), batch({{"pixel_values", pixels(2)}})).at("last_hidden_state").equal(same));
  EXPECT_ERROR(model->input(batch({{"pixel_values", pixels(2, 1, 6)}})), WEFT_INVALID_ARGUMENT,
               "[2, 3, 1, 6]", "a height of at least 2");
  const auto lengths = model->lengths(batch({{"pixel_values", pixels(5, 4, 9)}}));
  ASSERT_EQ(lengths.size(), 1);
  EXPECT_EQ(lengths[0].positions, 9);
  EXPECT_EQ(lengths[0].rows, 5);
}

TEST(VitInput, RefusesWrongMasks) {
  const auto expect_refusal = [](const at::Tensor& mask, auto... parts) {
    EXPECT_ERROR(tiny(kMasked)->input(batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", mask}})),
                 WEFT_INVALID_ARGUMENT, kMasked, "bool_masked_pos", parts...);
  };
  expect_refusal(at::zeros({2, 10}), "[2, 10]", "[2, 9]", "\"pixel_values\" of shape [2, 3, 6, 6]");
  expect_refusal(at::zeros({2, 3, 3}), "[2, 3, 3]", "[2, 9]");
  expect_refusal(at::full({2, 9}, 2, at::kLong), "0 and 1");
  EXPECT_ERROR(tiny(kMasked, kTiny.with_json("encoder_stride", "3"))
                   ->input(batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", at::zeros({2, 9})}})),
               WEFT_INVALID_ARGUMENT, "bool_masked_pos", "encoder_stride", "patch_size", "3 and 2");
  EXPECT_ERROR(
      tiny(kMasked, kTiny.with_json("image_size", "7"))
          ->input(batch({{"pixel_values", pixels(2, 7, 7)}, {"bool_masked_pos", at::zeros({2, 9})}})),
      WEFT_INVALID_ARGUMENT, "multiples of 2", "[2, 3, 7, 7]");
  EXPECT_ERROR(tiny(kMasked, kTiny.with_json("interpolate_pos_encoding", "true"))
                   ->input(batch({{"pixel_values", pixels(2, 4, 8)}})),
               WEFT_INVALID_ARGUMENT, "pixel_values", "[2, 3, 4, 8]", "as many rows of patches as columns");
}

TEST(VitInput, TakesMasksOfEveryType) {
  const auto model = tiny(kMasked);
  const at::Tensor mask = at::arange(18).remainder(4).eq(1).view({2, 9});
  const State expected = run(*model, batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", mask}}));
  for (const at::ScalarType type : {at::kInt, at::kLong, at::kFloat}) {
    const Batch typed = batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", mask.to(type)}});
    EXPECT_TRUE(run(*model, typed).at("reconstruction").equal(expected.at("reconstruction")));
    EXPECT_EQ(model->counts(typed)[0].count, 5 * 2 * 2 * 3);
  }
}

// Patches where the mask is 1 do not see their pixels, and without a mask all do.
TEST(VitInput, MaskedPixelsDoNotMatter) {
  const auto model = tiny(kMasked);
  at::Tensor first = pixels(1), second = first.clone();
  second.narrow(2, 2, 2).narrow(3, 4, 2).add_(1);  // the patch in row 1 and column 2
  const auto output = [&](const at::Tensor& image, bool masks) {
    Batch of = batch({{"pixel_values", image}});
    if (masks) of.set("bool_masked_pos", at::arange(9).eq(5).view({1, 9}));
    return run(*model, of).at("reconstruction");
  };
  EXPECT_TRUE(output(first, true).equal(output(second, true)));
  EXPECT_FALSE(output(first, false).equal(output(second, false)));
  EXPECT_FALSE(output(first, true).equal(output(first, false)));
}

TEST(VitOutputs, AreTheReconstructionAlone) {
  const auto model = tiny(kMasked);
  const State outputs = model->outputs(
      run(*model, batch({{"pixel_values", pixels(1)}, {"bool_masked_pos", at::ones({1, 9}, at::kLong)}})));
  ASSERT_EQ(outputs.size(), 1);
  EXPECT_EQ(outputs.begin()->first, "reconstruction");
}

TEST(VitInput, ReconstructsWithAnotherStrideWithoutALoss) {
  const auto model = tiny(kMasked, kTiny.with_json("encoder_stride", "5"));
  const Batch of = batch({{"pixel_values", pixels(2)}});
  const State last = run(*model, of);
  EXPECT_EQ(last.at("reconstruction").sizes(), (at::IntArrayRef{2, 3, 15, 15}));
  EXPECT_TRUE(model->loss(last, of).empty());
  EXPECT_TRUE(model->counts(of).empty());
}

// Images of a larger size than the configuration's have a mask for each of their patches.
TEST(VitLoss, IsThatOfTheMaskedPixels) {
  const auto model = tiny(kMasked, kTiny.with_json("interpolate_pos_encoding", "true"));
  const at::Tensor image = pixels(1, 8, 8);
  at::Tensor mask = at::zeros({1, 16}, at::kLong);
  mask[0][6] = mask[0][15] = 1;
  const Batch of = batch({{"pixel_values", image}, {"bool_masked_pos", mask}});
  const State last = run(*model, of);
  const at::Tensor difference = (image - last.at("reconstruction")).abs();
  const auto patch = [&](int64_t row, int64_t column) {
    return difference.narrow(2, 2 * row, 2).narrow(3, 2 * column, 2).sum();
  };
  EXPECT_TRUE(
      is_near(total_loss(*model, last, of).detach(), ((patch(1, 2) + patch(3, 3)) / 24).detach(), 1e-6));
}

TEST(VitLoss, IsZeroWithoutMaskedPatches) {
  const auto model = tiny(kMasked);
  const Batch of = batch({{"pixel_values", pixels(2)}, {"bool_masked_pos", at::zeros({2, 9}, at::kLong)}});
  EXPECT_EQ(model->loss(run(*model, of), of)[0].sum.item<double>(), 0);
  EXPECT_EQ(model->counts(of)[0].count, 0);
}

}  // namespace

}  // namespace weft::test
