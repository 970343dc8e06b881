// The device cuda below the engine's models: memory, streams, the limit, and NCCL with one rank. Each test
// runs in a process of its own, because a process has one device.
#include "device/device.hpp"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "device/random.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

void on_gpu(const std::function<void()>& body) {
  on_ranks({1}, [&](World&) {
    device::use("cuda");
    body();
  });
}

at::TensorOptions floats() {
  return device::current().options(at::kFloat);
}

TEST(CudaDevice, HasMemoryThatIsCountedAndFreed) {
  on_gpu([] {
    const auto before = device::memory_use();
    ASSERT_TRUE(before.capacity);
    EXPECT_GT(*before.capacity, int64_t{1} << 30);
    const at::Tensor tensor = at::ones({1 << 20}, floats());
    EXPECT_GE(device::memory_use().used, before.used + (4 << 20));
    device::resize_storage(tensor, 0);
    EXPECT_EQ(device::memory_use().used, before.used);
    EXPECT_GE(device::memory_use().peak, before.used + (4 << 20));
  });
}

TEST(CudaDevice, OrdersStreamsByEvents) {
  on_gpu([] {
    const at::Tensor source = at::ones({1 << 24}, floats());
    at::Tensor copy;
    device::Event filled;
    {
      const device::OnStream side(device::Stream::make());
      copy = source * 3;
      filled.record();
    }
    filled.wait();
    const at::Tensor sum = copy.sum();
    EXPECT_EQ(device::value_of<double>(sum), 3.0 * (1 << 24));
  });
}

TEST(CudaDevice, RestoresItsGenerator) {
  on_gpu([] {
    device::seed_random(7);
    at::Tensor first, second;
    {
      const device::KeepRandomState keep;
      first = at::rand({64}, floats());
    }
    second = at::rand({64}, floats());
    EXPECT_TRUE(at::equal(first, second));
    EXPECT_FALSE(at::equal(second, at::rand({64}, floats())));
  });
}

// NCCL takes a GPU for each rank; with one rank its collectives are copies, but every call is made.
TEST(CudaDevice, NcclWithOneRankPerformsItsCollectives) {
  on_gpu([] {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const device::MakeBackend make = device::current().make_backend();
    ASSERT_NE(make, nullptr);
    const auto backend = make(store, 0, 1, std::chrono::seconds(20), nullptr);
    const at::Tensor values = at::arange(8, floats());
    std::vector<at::Tensor> list{values.clone()};
    backend->allreduce(list, {})->wait();
    EXPECT_TRUE(at::equal(list[0], values));
    backend->broadcast(list, {})->wait();
    at::Tensor gathered = at::empty_like(values), input = values.clone();
    backend->_allgather_base(gathered, input, {})->wait();
    EXPECT_TRUE(at::equal(gathered, values));
    at::Tensor scattered = at::empty_like(values);
    backend->_reduce_scatter_base(scattered, input, {})->wait();
    EXPECT_TRUE(at::equal(scattered, values));
    device::synchronise();  // and nothing has failed
    EXPECT_NO_THROW(device::check_work());
  });
}

}  // namespace
}  // namespace weft::test
