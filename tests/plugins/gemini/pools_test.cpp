// Pools of memory, the accelerator's where there is no GPU.
#include "memory/pools.hpp"

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>

#include <fstream>

#include "base/bytes.hpp"
#include "device/counting_allocator.hpp"
#include "plugins/gemini/support.hpp"

namespace weft::test {

namespace {

using memory::Pool;

int64_t used(Pool pool) {
  return memory::pool_use(pool).used;
}

// Of this process, in bytes.
int64_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmLck:")) return 1024 * std::stoll(line.substr(6));
  return -1;
}

}  // namespace

TEST(Bytes, AreReadAsPeopleWriteThem) {
  EXPECT_ERROR(parse_bytes("much", "the limit"), WEFT_INVALID_ARGUMENT, "limit is \"much\"", "512MiB");
  for (const char* wrong : {"", "-1", "0", "0.2", "5 MiB", "5mib", "1e30", "nan"})
    EXPECT_ERROR(parse_bytes(wrong, "x"), WEFT_INVALID_ARGUMENT, "x is");
  EXPECT_EQ(parse_bytes("4096", "x"), 4096);
  EXPECT_EQ(parse_bytes("1.5KiB", "x"), 1536);
  EXPECT_EQ(parse_bytes("80GB", "x"), 80'000'000'000);
  EXPECT_EQ(format_bytes(1536), "1.5 KiB (1536 bytes)");
}

TEST(AcceleratorMemory, RefusesWhatExceedsItsLimitAndNamesTheSizes) {
  const AcceleratorLimit limit(1 << 20);
  const at::Tensor first = memory::allocate(Pool::kAccelerator, 200'000, at::kFloat);
  EXPECT_ERROR(memory::allocate(Pool::kAccelerator, 100'000, at::kFloat), WEFT_RESOURCE_EXHAUSTED,
               "390.6 KiB (400000 bytes) wanted", "800000 bytes) of 1.0 MiB (1048576 bytes)",
               "WEFT_ACCELERATOR_MEMORY");
  EXPECT_EQ(used(Pool::kAccelerator), 800'000);
  EXPECT_ERROR(memory::limit_accelerator(1000), WEFT_RESOURCE_EXHAUSTED, "be limited", "in use");
  EXPECT_NO_THROW(memory::allocate(Pool::kAccelerator, 62'144, at::kFloat));  // to the byte
  EXPECT_NO_THROW(memory::allocate(Pool::kHost, 10'000'000, at::kFloat));
}

TEST(AcceleratorMemory, IsFreedWhenAStorageIsResizedToNothing) {
  const AcceleratorLimit limit(1 << 20);
  const at::Tensor tensor = memory::allocate(Pool::kAccelerator, 200'000, at::kFloat);
  const auto resize = [&](size_t bytes) {
    at::native::resize_bytes_cpu(tensor.storage().unsafeGetStorageImpl(), bytes);
  };
  resize(0);
  EXPECT_EQ(used(Pool::kAccelerator), 0);
  const at::Tensor other = memory::allocate(Pool::kAccelerator, 200'000, at::kFloat);
  EXPECT_ERROR(resize(800'000), WEFT_RESOURCE_EXHAUSTED, "accelerator memory");
  EXPECT_EQ(used(Pool::kAccelerator), 800'000);
}

TEST(AcceleratorMemory, CountsWhatCrossesInTheTypeOfTheReceiver) {
  const at::Tensor host = at::ones({1000}), up = memory::allocate(Pool::kAccelerator, 1000, at::kBFloat16);
  const int64_t before = memory::pool_use(Pool::kAccelerator).received;
  const int64_t down = memory::pool_use(Pool::kHost).received;
  memory::copy(up, host);
  EXPECT_EQ(memory::pool_use(Pool::kAccelerator).received - before, 2000);
  EXPECT_EQ(up.sum().item<float>(), 1000);
  const at::Tensor back = memory::allocate(Pool::kPinned, 1000, at::kFloat);
  memory::copy(back, up);
  EXPECT_EQ(memory::pool_use(Pool::kHost).received - down, 4000);
  memory::copy(back, host);
  EXPECT_EQ(memory::pool_use(Pool::kHost).received - down, 4000);
}

TEST(AcceleratorMemory, HoldsWhatIsMadeLikeItsTensors) {
  const at::Tensor value = memory::allocate(Pool::kAccelerator, 100, at::kFloat);
  const int64_t before = used(Pool::kAccelerator);
  const at::Tensor moment = memory::empty_like(value.narrow(0, 10, 50), at::kFloat);
  EXPECT_EQ(used(Pool::kAccelerator) - before, 200);
  EXPECT_EQ(memory::pool_of(moment), Pool::kAccelerator);
  EXPECT_EQ(moment.numel(), 50);
  EXPECT_EQ(memory::pool_of(memory::empty_like(at::ones({3}), at::kFloat)), Pool::kHost);
}

TEST(PinnedMemory, LiesInLockedPages) {
  const int64_t before = locked_bytes();
  const at::Tensor pinned = memory::allocate(Pool::kPinned, 100'000, at::kFloat);
  EXPECT_GE(locked_bytes() - before, 400'000);
  at::native::resize_bytes_cpu(pinned.storage().unsafeGetStorageImpl(), 0);
  EXPECT_EQ(locked_bytes(), before);
}

TEST(Pools, AreCountedWithAllMemoryButNotAsWhatComputingTakes) {
  count_memory();
  const int64_t all = allocated_bytes(), computing = unpooled_bytes();
  const at::Tensor placed = memory::allocate(Pool::kHost, 1000, at::kFloat);
  EXPECT_EQ(allocated_bytes() - all, 4000);
  EXPECT_EQ(unpooled_bytes(), computing);
  const at::Tensor activation = at::empty({500});
  EXPECT_EQ(allocated_bytes() - all, 6000);
  EXPECT_EQ(unpooled_bytes() - computing, 2000);
}

}  // namespace weft::test
