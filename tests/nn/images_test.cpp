// Sizes, patches and positions of images. What inputs refuse is tested with the families that read them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/images.hpp"

namespace weft::test {

namespace {

using nn::HeightWidth;

TEST(HeightWidth, IsOneNumberOrTwo) {
  const Config config = Config::parse(R"({"one": 7, "two": [3, 5], "wrong": [3], "none": null})", "c.json");
  EXPECT_EQ(nn::height_and_width(config, "one", 2), (HeightWidth{7, 7}));
  EXPECT_EQ(nn::height_and_width(config, "two", 2), (HeightWidth{3, 5}));
  EXPECT_EQ(nn::height_and_width(config, "absent", 2), (HeightWidth{2, 2}));
  EXPECT_EQ(nn::height_and_width(config, "none", 2), (HeightWidth{2, 2}));
  EXPECT_ERROR(nn::height_and_width(config, "wrong", 2), WEFT_INVALID_ARGUMENT, "c.json", "\"wrong\" is [3]",
               "[height, width]");
  EXPECT_EQ((HeightWidth{7, 9}.over({2, 3})), (HeightWidth{3, 3}));
}

// A patch is the pixels of a channel row by row, then of the next channel.
TEST(PatchConvolution, MultipliesPatches) {
  nn::PatchConvolution layer(2, 5, {2, 3}, at::kDouble);
  at::manual_seed(1);
  layer.weight = at::randn({5, 2, 2, 3}, at::kDouble);
  layer.bias = at::randn({5}, at::kDouble);
  const at::Tensor x = at::randn({4, 2, 5, 7}, at::kDouble), y = layer(x);
  ASSERT_EQ(y.sizes(), (at::IntArrayRef{4, 5, 2, 2}));
  for (int64_t row : {0, 1})
    for (int64_t column : {0, 1}) {
      const at::Tensor patch = x.narrow(2, 2 * row, 2).narrow(3, 3 * column, 3).flatten(1);
      const at::Tensor expected = patch.matmul(layer.weight.flatten(1).t()) + layer.bias;
      EXPECT_TRUE(is_near(y.select(3, column).select(2, row), expected, kKernelFp64)) << row << column;
    }
}

TEST(ResizedPositions, KeepTokensAndConstants) {
  at::manual_seed(1);
  const at::Tensor positions = at::randn({1, 2 + 3 * 3, 4});
  EXPECT_TRUE(nn::resized_positions(positions, 2, {3, 3}, {3, 3}).equal(positions));
  const at::Tensor larger = nn::resized_positions(positions, 2, {3, 3}, {5, 2});
  ASSERT_EQ(larger.sizes(), (at::IntArrayRef{1, 2 + 5 * 2, 4}));
  EXPECT_TRUE(larger.narrow(1, 0, 2).equal(positions.narrow(1, 0, 2)));
  // Rows that are alike stay alike, and columns keep their order.
  const at::Tensor columns =
      at::arange(3).view({1, 1, 3, 1}).expand({1, 3, 3, 1}).reshape({1, 9, 1}).to(at::kFloat);
  const at::Tensor resized = nn::resized_positions(columns, 0, {3, 3}, {2, 6}).view({2, 6});
  EXPECT_TRUE(is_near(resized[0], resized[1], kKernelFp32));
  EXPECT_TRUE(resized[0].diff().gt(0).all().item<bool>());
  const at::Tensor half = nn::resized_positions(positions.to(at::kBFloat16), 2, {3, 3}, {5, 2});
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(is_near(half.to(at::kFloat), larger, 2 * kRoundingBf16));
}

}  // namespace

}  // namespace weft::test
