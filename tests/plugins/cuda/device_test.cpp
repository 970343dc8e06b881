// The device cuda below the engine's models: memory, streams, graphs, the limit, and NCCL with one rank. Each
// test runs in a process of its own, because a process has one device.
#include "device/device.hpp"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "device/graph.hpp"
#include "device/random.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"
#include "memory/pools.hpp"
#include "memory/transfers.hpp"
#include "support/expect_error.hpp"
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

TEST(CudaDevice, TransfersRunBesideOtherStreams) {
  on_gpu([] {
    constexpr int64_t kElements = (int64_t{1} << 24) + 3;  // a copy takes about a millisecond
    const at::Tensor host = memory::allocate(memory::Pool::kPinned, kElements, at::kFloat).fill_(3);
    ASSERT_TRUE(host.is_pinned());
    const at::Tensor there = memory::allocate(memory::Pool::kAccelerator, kElements, at::kFloat);
    const at::Tensor back = memory::allocate(memory::Pool::kPinned, kElements, at::kFloat).zero_();
    for (int round = 0; round < 8; ++round) {
      memory::begin_transfer(memory::Direction::kToAccelerator);
      memory::copy(there, host);
      memory::end_transfer()->wait();
      const at::Tensor sum = there + 1;
      memory::begin_transfer(memory::Direction::kToHost);
      memory::copy(back, sum);
      const memory::TransferEnd end = memory::end_transfer();
      EXPECT_FALSE(end->is_done()) << "the host has waited for the copy";
      memory::finish_transfers();
      EXPECT_TRUE(end->is_done());
      EXPECT_EQ(back.min().item<float>(), host[0].item<float>() + 1);
      EXPECT_EQ(back.max().item<float>(), host[0].item<float>() + 1);
      host.add_(1);
    }
  });
}

// libtorch refuses a memory pool whose last graph is gone.
TEST(CudaDevice, CapturesWhenAllEarlierGraphsAreGone) {
  on_gpu([] {
    const auto capturer = device::make_graph_capturer();
    const device::OnStream on(device::Stream::make());
    const at::Tensor x = at::ones({8}, floats());
    at::Tensor twice;
    for (int i = 0; i < 3; ++i) {
      const auto graph = device::capture(*capturer, [&] {
        twice = x * 2;
        x.copy_(twice);
      });
      const auto beside = device::capture(*capturer, [&] { x.add_(1); });
      graph->replay();
      beside->replay();
      beside->replay();
    }
    EXPECT_EQ(device::value_of<float>(x[0]), 22);  // 1, 4, 10, 22
  });
}

// CUDA refuses the first wait of the host and all that follows; libtorch refuses the copy before CUDA does.
TEST(CudaDevice, GoesOnAfterACaptureThatFailed) {
  on_gpu([] {
    const auto capturer = device::make_graph_capturer();
    const device::OnStream on(device::Stream::make());
    const at::Tensor x = at::ones({64}, floats());
    for (const auto& refused : {std::function<void()>([&] { x.nonzero(); }),
                                std::function<void()>([&] { (x * at::rand({64}, floats())).sum().item(); }),
                                std::function<void()>([&] { x.cpu(); })}) {
      EXPECT_ERROR(device::capture(*capturer, refused), WEFT_UNIMPLEMENTED, "be captured");
      const at::Tensor eager = at::rand({64}, floats());
      EXPECT_FALSE(at::equal(eager, at::rand({64}, floats())));
      const at::Tensor drawn = at::empty({64}, floats());
      const auto graph = device::capture(*capturer, [&] { drawn.copy_(at::rand({64}, floats())); });
      graph->replay();
      const at::Tensor first = drawn.clone();
      graph->replay();
      EXPECT_FALSE(at::equal(first, drawn));
      EXPECT_GT(device::value_of<double>(drawn.sum()), 0);
    }
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
