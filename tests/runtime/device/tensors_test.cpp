#include "device/tensors.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "stand_in.hpp"
#include "support/expect_error.hpp"

namespace weft::test {
namespace {

TEST(DeviceTensors, HostMemoryIsNotCopied) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(device::is_on_host(x));
  EXPECT_TRUE(device::on_host(x).is_same(x));
  EXPECT_TRUE(device::on_device(x).is_same(x));
  EXPECT_TRUE(device::host_memory_for(x).is_same(x));
  EXPECT_FALSE(device::pins_memory());
}

TEST(DeviceTensors, TensorsWithoutMemoryAreNotOnTheHost) {
  EXPECT_FALSE(device::is_on_host(at::empty({3}, device::Device(kStandIn).options(at::kFloat))));
}

TEST(DeviceTensors, OtherDevicesGetTensorsAndGiveHostMemoryToFill) {
  const at::Tensor x = at::ones({2, 3}, at::kHalf);
  const OnStandIn stand_in;
  const at::Tensor there = device::on_device(x);
  EXPECT_TRUE(there.is_meta());
  EXPECT_TRUE(device::on_device(there).is_same(there));
  const at::Tensor filled = device::host_memory_for(there);
  EXPECT_TRUE(device::is_on_host(filled));
  EXPECT_EQ(filled.sizes(), there.sizes());
  EXPECT_EQ(filled.scalar_type(), at::kHalf);
  EXPECT_TRUE(device::pins_memory());
}

TEST(DeviceTensors, MemoryToFillIsContiguous) {
  const at::Tensor columns = at::ones({2, 3}).t();
  const at::Tensor filled = device::host_memory_for(columns);
  EXPECT_FALSE(filled.is_same(columns));
  EXPECT_TRUE(filled.is_contiguous());
  EXPECT_EQ(filled.sizes(), columns.sizes());
}

TEST(DeviceTensors, ValuesAreReadInTheOrderOfTheirIndices) {
  const at::Tensor columns = at::arange(6, at::kLong).view({2, 3}).t();
  EXPECT_EQ(device::values_of<int64_t>(columns), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(device::value_of<double>(at::full({1}, 2.5, at::kFloat)), 2.5);
  EXPECT_TRUE(device::values_of<float>(at::empty({0})).empty());
}

// The pages of a system that locks 100 bytes in all.
c10::DataPtr hundred_bytes(size_t bytes) {
  if (bytes > 100) return {};
  static char pages[100];
  return {pages, c10::Device(device::kHost)};
}

TEST(DeviceTensors, PageLockedMemoryIsThatOfTheKindOrAnError) {
  static constexpr device::Kind kind = [] {
    device::Kind locks = kStandIn;
    locks.allocate_pinned = &hundred_bytes;
    return locks;
  }();
  const device::Device before = device::current();
  device::use(device::Device(kind));
  EXPECT_NE(device::allocate_pinned(100).get(), nullptr);
  EXPECT_ERROR(device::allocate_pinned(101), WEFT_RESOURCE_EXHAUSTED, "101 bytes", "offload less");
  device::use(before);
}

TEST(DeviceTensors, StoragesAreResizedAndKeepWhatFits) {
  const at::Tensor x = at::arange(4, at::kLong), view = x.narrow(0, 2, 2);
  device::resize_storage(x, 0);
  EXPECT_EQ(x.storage().nbytes(), 0u);
  EXPECT_EQ(view.numel(), 2);
  device::resize_storage(x, 32);
  x.copy_(at::arange(4, at::kLong));
  device::resize_storage(x, 64);
  EXPECT_EQ(x.storage().nbytes(), 64u);
  EXPECT_EQ(device::values_of<int64_t>(view), (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace weft::test
