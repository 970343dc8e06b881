#include "device/device.hpp"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/counting_allocator.hpp"
#include "stand_in.hpp"
#include "support/expect_error.hpp"

namespace weft::test {
namespace {

using device::current;

TEST(Device, IsTheCpuUnlessAnotherIsChosen) {
  EXPECT_TRUE(current().is_host());
  EXPECT_EQ(current().name(), "cpu");
  EXPECT_EQ(current().backend(), "gloo");
  const at::Tensor made = at::empty({2}, current().options(at::kHalf));
  EXPECT_TRUE(made.device() == at::empty({2}).device() && made.scalar_type() == at::kHalf);
  device::synchronise();
}

TEST(Device, IsRefusedWithoutItsLibraryAndTheCpuStays) {
  EXPECT_ERROR(device::use("no_such_device"), WEFT_NOT_FOUND, "no library", "no_such_device");
  EXPECT_NE(device::missing("no_such_device").find("no library"), std::string::npos);
  EXPECT_EQ(device::missing("cpu"), "");
  EXPECT_TRUE(current().is_host());
}

TEST(Device, IsRefusedIfItsTableIsWrong) {
  const auto expect_refusal = [](const auto& change, const std::string& text) {
    device::Kind kind = kStandIn;
    change(kind);
    EXPECT_ERROR(device::check_kind(&kind, "stand_in", "lib.so"), WEFT_FAILED_PRECONDITION,
                 "device stand_in: lib.so", text);
  };
  EXPECT_NO_THROW(device::check_kind(&kStandIn, "stand_in", "lib.so"));
  EXPECT_ERROR(device::check_kind(nullptr, "stand_in", "lib.so"), WEFT_FAILED_PRECONDITION, "its table");
  const std::string size = std::to_string(sizeof(device::Kind));
  for (const char* change : {"smaller", "larger"})
    expect_refusal([&](device::Kind& kind) { kind.struct_size += change == std::string("larger") ? 8 : -8; },
                   "one of " + size);
  expect_refusal([](device::Kind& kind) { kind.type = device::kHost; }, "names the CPU");
  expect_refusal([](device::Kind& kind) { kind.backend = nullptr; }, "communication backend");
}

TEST(Device, GivesTensorsItsPlaceAndKnowsThem) {
  const at::Tensor on_host = at::empty({2});
  EXPECT_TRUE(current().holds(on_host));
  const OnStandIn stand_in;
  EXPECT_FALSE(current().is_host());
  EXPECT_EQ(current().name(), "meta");
  const at::Tensor there = at::empty({2}, current().options(at::kFloat));
  EXPECT_TRUE(there.is_meta());
  EXPECT_TRUE(current().holds(there));
  EXPECT_FALSE(current().holds(on_host));
}

TEST(Device, CommunicatesOverTheHostIfRanksShareIt) {
  EXPECT_EQ(device::Device(kStandIn, 0, /*shared=*/false).backend(), "pretended");
  EXPECT_EQ(device::Device(kStandIn, 0, /*shared=*/true).backend(), "gloo");
}

TEST(Device, IsChosenOnceByName) {
  const OnStandIn stand_in;
  EXPECT_ERROR(device::use("another"), WEFT_FAILED_PRECONDITION, "another", "meta already");
  EXPECT_NO_THROW(device::use("stand_in"));
}

TEST(Device, IsChosenOnceByNameAlsoIfItIsTheCpu) {
  const device::Device before = current();
  EXPECT_NO_THROW(device::use("cpu"));
  EXPECT_ERROR(device::use("another"), WEFT_FAILED_PRECONDITION, "device another", "on cpu",
               "another process");
  EXPECT_NO_THROW(device::use("cpu"));
  device::use(before);
  EXPECT_ERROR(device::use("another"), WEFT_NOT_FOUND, "no library");
}

TEST(Device, TellsOfWorkThatFailedUnheard) {
  static std::string failed;
  static device::Kind kind = kStandIn;
  kind.failure = [] { return failed; };
  const device::Device before = current();
  device::use(device::Device(kind));
  EXPECT_NO_THROW(device::check_work());
  failed = "communicator \"all\": rank 0 of 2: all_reduce of 8 bytes: timed out";
  EXPECT_ERROR(device::check_work(), WEFT_UNAVAILABLE, "rank 0 of 2: all_reduce of 8 bytes");
  device::use(before);
  EXPECT_NO_THROW(device::check_work());
}

TEST(Device, HasNoFactsWithoutALibrary) {
  EXPECT_TRUE(device::facts("no_such_device").empty());
}

TEST(Device, LimitIsReadFromTheEnvironment) {
  unsetenv("WEFT_ACCELERATOR_MEMORY");
  EXPECT_EQ(device::memory_limit(), std::nullopt);
  setenv("WEFT_ACCELERATOR_MEMORY", "2MiB", 1);
  EXPECT_EQ(device::memory_limit(), 2 << 20);
  EXPECT_ERROR(device::limit_memory(device::Device(kStandIn)), WEFT_UNIMPLEMENTED,
               "WEFT_ACCELERATOR_MEMORY is 2MiB", "device stand_in");
  static int64_t limit = 0;
  device::Kind limited = kStandIn;
  limited.limit_memory = [](c10::DeviceIndex, int64_t bytes) { limit = bytes; };
  device::limit_memory(device::Device(limited));
  EXPECT_EQ(limit, 2 << 20);
  setenv("WEFT_ACCELERATOR_MEMORY", "much", 1);
  EXPECT_ERROR(device::memory_limit(), WEFT_INVALID_ARGUMENT, "WEFT_ACCELERATOR_MEMORY", "much");
  unsetenv("WEFT_ACCELERATOR_MEMORY");
}

TEST(Device, CountsTheMemoryOfTheCpu) {
  count_memory();
  const device::MemoryUse before = device::memory_use();
  {
    const at::Tensor tensor = at::empty({1024}, at::kByte);
    EXPECT_EQ(device::memory_use().used, before.used + 1024);
  }
  EXPECT_EQ(device::memory_use().used, before.used);
  EXPECT_GE(device::memory_use().peak, before.used + 1024);
  device::reset_peak();
  EXPECT_EQ(device::memory_use().peak, before.used);
}

}  // namespace
}  // namespace weft::test
