#include "device/autocast.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

at::ScalarType type_of_product() {
  return at::matmul(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

TEST(DeviceAutocast, IsOnWhileItLivesAndNests) {
  EXPECT_EQ(device::autocast_dtype(), std::nullopt);
  {
    const device::Autocast outer(at::kBFloat16);
    EXPECT_EQ(device::autocast_dtype(), at::kBFloat16);
    EXPECT_EQ(type_of_product(), at::kBFloat16);
    {
      const device::Autocast inner(at::kHalf), nothing(std::nullopt);
      EXPECT_EQ(device::autocast_dtype(), at::kHalf);
    }
    EXPECT_EQ(device::autocast_dtype(), at::kBFloat16);
  }
  EXPECT_EQ(device::autocast_dtype(), std::nullopt);
  EXPECT_EQ(type_of_product(), at::kFloat);
}

TEST(DeviceAutocast, CastsWhatMatrixProductsTake) {
  const at::Tensor x = at::ones({2});
  EXPECT_TRUE(device::autocast(x).is_same(x));
  const device::Autocast on(at::kBFloat16);
  EXPECT_EQ(device::autocast(x).scalar_type(), at::kBFloat16);
  EXPECT_FALSE(device::autocast(at::Tensor()).defined());
}

TEST(DeviceAutocast, IsDisabledForAWhile) {
  const device::Autocast on(at::kBFloat16);
  {
    const device::NoAutocast off;
    EXPECT_EQ(type_of_product(), at::kFloat);
  }
  EXPECT_EQ(type_of_product(), at::kBFloat16);
}

}  // namespace
}  // namespace weft::test
