// The memory of the device: the host cannot read it, there is as much as the device has, and it is freed
// once.
#include <cpu/gelu.hpp>

#include "sim/device_work.hpp"
#include "sim/sim_test.hpp"

namespace weft::sim {
namespace {

class Memory : public SimTest {};
using MemoryDeathTest = Memory;

TEST_F(MemoryDeathTest, CannotBeReadByTheHost) {
  const at::Tensor tensor = at::ones({100}, floats());
  const auto read = [&] { return static_cast<volatile float*>(tensor.data_ptr())[1]; };
  EXPECT_DEATH((void)read(),
               "the host reads memory of a device: byte 4 of a block of 512 bytes on sim:0, "
               "last used by aten::fill_");
}

TEST_F(MemoryDeathTest, CannotBeWrittenByTheHost) {
  const at::Tensor tensor = at::ones({100}, floats());
  EXPECT_DEATH(*tensor.data_ptr<float>() = 1, "the host writes memory of a device: byte 0 of a block");
}

TEST_F(MemoryDeathTest, CannotBeUsedByKernelsOfTheHost) {
  const at::Tensor tensor = at::ones({100}, floats());
  EXPECT_DEATH(kernels::gelu_forward(kernels::Gelu::kErf, 100, tensor.const_data_ptr<float>(),
                                     tensor.data_ptr<float>()),
               "the host reads memory of a device");
}

TEST_F(MemoryDeathTest, CannotBeReadWhenItIsFreed) {
  at::Tensor tensor = at::ones({77'777}, floats());
  const auto* const address = static_cast<const volatile char*>(tensor.data_ptr());
  tensor = at::Tensor();
  EXPECT_DEATH((void)*address, "byte 0 of a freed block of 311296 bytes on sim:0");
}

TEST_F(Memory, IsNanUntilItIsWritten) {
  EXPECT_TRUE(at::isnan(at::empty({300}, floats())).all().item<bool>());
  at::ones({300}, floats());
  EXPECT_TRUE(at::isnan(at::empty({300}, floats())).all().item<bool>()) << "of a recycled block";
}

TEST_F(Memory, IsCountedInBlocksOf512Bytes) {
  const int64_t before = counters().bytes_in_use;
  {
    const at::Tensor one = at::empty({1}, floats());
    EXPECT_EQ(counters().bytes_in_use - before, 512);
    const at::Tensor many = at::empty({1000}, floats());
    EXPECT_EQ(counters().bytes_in_use - before, 512 + 4096);
  }
  EXPECT_EQ(counters().bytes_in_use, before);
  EXPECT_EQ(counters().peak_bytes - before, 512 + 4096);
  reset_counters();
  EXPECT_EQ(counters().peak_bytes, before);
}
TEST_F(Memory, KeepsOtherBlocksWhenALargeOneIsFreed) {
  constexpr int64_t kLarge = (1 << 18) + 128;  // 512 bytes more than whole pages
  std::vector<at::Tensor> large, small;
  for (int i = 0; i < 8; ++i) {  // so that they begin at each 512 bytes of a page
    large.push_back(at::ones({kLarge}, floats()));
    small.push_back(at::ones({128}, floats()));
    small.push_back(at::ones({128}, floats()));
  }
  large.clear();
  for (const at::Tensor& ones : small) EXPECT_EQ(ones.sum().item<float>(), 128);
}

TEST_F(Memory, EndsAtTheCapacity) {
  const int64_t before = counters().bytes_in_use;
  set_capacity(0, before + 4096);
  at::Tensor fits = at::empty({1024}, floats());
  EXPECT_THROW(at::empty({1}, floats()), c10::OutOfMemoryError);
  expect_throw("out of memory: 512 bytes asked of sim:0, which has " + std::to_string(before + 4096) +
                   " of " + std::to_string(before + 4096) + " in use",
               [] { at::empty({1}, floats()); });
  fits = at::Tensor();
  EXPECT_NO_THROW(at::empty({1024}, floats()));
  EXPECT_THROW(at::empty({1025}, floats()), c10::OutOfMemoryError);
  set_capacity(0, int64_t{8} << 30);
  expect_throw("must be at least 0", [] { set_capacity(0, -1); });
  expect_throw("there is no device 8 of 8", [] { set_capacity(8, 1); });
}

TEST_F(Memory, IsTakenBackByAWaitAfterRecordStream) {
  set_capacity(0, counters().bytes_in_use + 4096);
  at::Tensor kept = at::empty({1024}, floats());
  const c10::Stream side = new_stream();
  order(current_stream(), side);
  {
    const c10::StreamGuard on_side(side);
    kept.fill_(1);
  }
  kept.record_stream(side);
  kept = at::Tensor();
  EXPECT_EQ(counters().host_waits, 0);
  EXPECT_NO_THROW(at::empty({1024}, floats()));
  EXPECT_EQ(counters().host_waits, 1);
  set_capacity(0, int64_t{8} << 30);
}

TEST_F(Memory, IsRefusedByOperatorsOnceItIsFreed) {
  const at::Tensor tensor = at::ones({100}, floats());
  resize_storage(tensor.storage(), 0);
  expect_throw(
      "a tensor of shape [100] needs 400 bytes of memory, but its storage has 0: it was freed or never "
      "allocated",
      [&] { tensor.add(1); });
  resize_storage(tensor.storage(), 400);
  tensor.fill_(2);
  EXPECT_EQ(tensor.sum().item<float>(), 200);
}

TEST_F(Memory, KeepsItsValuesWhenItGrows) {
  const at::Tensor tensor = at::arange(6, floats());
  resize_storage(tensor.storage(), 4096);
  EXPECT_TRUE(at::equal(tensor.cpu(), at::arange(6, at::kFloat)));
}

}  // namespace
}  // namespace weft::sim
