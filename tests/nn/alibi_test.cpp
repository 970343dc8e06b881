#include "weft/nn/alibi.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/tolerances.hpp"
#include "weft/nn/masks.hpp"

namespace weft::test {

namespace {

TEST(Alibi, HasSlopesOfAGeometricSequence) {
  EXPECT_TRUE(is_near(nn::alibi_slopes(8), at::pow(2.0, at::arange(-1, -9, -1)), 1e-6));
  EXPECT_TRUE(is_near(nn::alibi_slopes(1), at::tensor({1.0 / 256}), 1e-6));
}

// The rest comes from every other slope of twice as many heads.
TEST(Alibi, HasSlopesOfTheNextPowerOfTwoForTheRest) {
  EXPECT_TRUE(is_near(nn::alibi_slopes(3), at::tensor({1.0 / 16, 1.0 / 256, 1.0 / 4}), 1e-6));
  const at::Tensor twelve = nn::alibi_slopes(12), eight = nn::alibi_slopes(8), sixteen = nn::alibi_slopes(16);
  EXPECT_TRUE(twelve.narrow(0, 0, 8).equal(eight));
  EXPECT_TRUE(twelve.narrow(0, 8, 4).equal(sixteen.slice(0, 0, 8, 2)));
}

TEST(Alibi, CountsKeysWithoutPaddingAndMasksThem) {
  const nn::Alibi alibi(2);
  const at::Tensor x = at::zeros({2, 4, 6});
  const at::Tensor slopes = nn::alibi_slopes(2).view({1, 2, 1, 1});
  EXPECT_TRUE(alibi(x, {}).equal(slopes * at::arange(4).view({1, 1, 1, 4})));
  const at::Tensor allowed = at::tensor({1, 1, 1, 1, 0, 1, 0, 1}).view({2, 1, 1, 4}).to(at::kBool);
  const at::Tensor bias = alibi(x, nn::additive_mask(allowed, at::kFloat));
  EXPECT_EQ(bias.sizes(), (at::IntArrayRef{2, 2, 1, 4}));
  EXPECT_TRUE(bias[1].index({at::indexing::Slice(), 0, 1}).equal(slopes.view({2}) * 0));
  EXPECT_TRUE(bias[1].index({at::indexing::Slice(), 0, 3}).equal(slopes.view({2})));
  EXPECT_EQ(bias[1][0][0][2].item<float>(), std::numeric_limits<float>::lowest());
}

TEST(Alibi, GivesTheHeadsOfARank) {
  nn::Alibi alibi(6);
  const at::Tensor x = at::zeros({1, 5, 6}, at::kDouble), all = alibi(x, {});
  alibi.heads = {2, 3};
  EXPECT_TRUE(alibi(x, {}).equal(all.narrow(1, 2, 3)));
  EXPECT_EQ(all.scalar_type(), at::kDouble);
}

}  // namespace

}  // namespace weft::test
