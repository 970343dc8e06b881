// What a collective asks of the backend of a device. The device is libtorch's meta device, and its backend
// notes what it is asked; ranks other than 0 only wait.
#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "device/device.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

using Calls = std::vector<std::string>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

Calls calls;
bool takes_groups = true;
int unreachable = -1;  // a rank to which nothing can be sent

class Noting final : public c10d::Backend {
 public:
  Noting(int rank, int size) : Backend(rank, size) {}
  const std::string getBackendName() const override { return "noting"; }
  bool supportsCoalescing() const override { return takes_groups; }
  void startCoalescing() override { calls.push_back("begin"); }
  WorkPtr endCoalescing() override { return note("end"); }
  WorkPtr send(std::vector<at::Tensor>&, int to, int) override {
    if (to == unreachable) throw std::runtime_error("rank " + std::to_string(to) + " is out of reach");
    return note("send " + std::to_string(to));
  }
  WorkPtr recv(std::vector<at::Tensor>&, int from, int) override {
    return note("receive " + std::to_string(from));
  }

 private:
  class Done final : public c10d::Work {
   public:
    bool wait(std::chrono::milliseconds) override { return true; }
  };
  WorkPtr note(const std::string& what) {
    calls.push_back(what);
    return c10::make_intrusive<Done>();
  }
};

constexpr device::Kind kNoting = {
    sizeof(device::Kind), "noting", c10::DeviceType::Meta, "noting",
    [](const c10::intrusive_ptr<c10d::Store>&, int rank, int size, std::chrono::milliseconds,
       const c10::intrusive_ptr<c10d::Backend>&) -> c10::intrusive_ptr<c10d::Backend> {
      return c10::make_intrusive<Noting>(rank, size);
    }};

// Returns a tensor of the device with an address, which is that of `memory`.
at::Tensor on_device(std::vector<float>& memory) {
  const size_t bytes = memory.size() * sizeof(float);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(memory.data(), c10::Device(c10::DeviceType::Meta)), nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::Meta), caffe2::TypeMeta::Make<float>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(memory.size())});
  return tensor;
}

void gather(World& world) {
  if (world.rank() == 0) {
    device::use(device::Device(kNoting));
    std::vector<float> output(15), input(5);
    world.communicator().all_gather(on_device(output), on_device(input)).wait();
  }
  world.block_all();
}

// A device does the messages of a stream in order: apart, ranks that all receive first would wait forever.
WEFT_RANKS_TEST(DeviceMessages, AreOneGroupForACollective, 3) {
  gather(world);
  if (world.rank() == 0)
    EXPECT_EQ(calls, (Calls{"begin", "receive 1", "send 1", "receive 2", "send 2", "end"}));
}

// An open group would take later collectives in.
WEFT_RANKS_TEST(DeviceMessages, LeaveNoGroupOpenIfACollectiveFails, 3) {
  if (world.rank() == 0) {
    device::use(device::Device(kNoting));
    unreachable = 2;
    std::vector<float> output(15), input(5);
    EXPECT_ERROR(world.communicator().all_gather(on_device(output), on_device(input)), WEFT_UNAVAILABLE,
                 "rank 2", "of reach");
    EXPECT_EQ(calls, (Calls{"begin", "receive 1", "send 1", "receive 2", "end"}));
  }
}

// Also without a message: the other ranks wait for this one when they connect.
WEFT_RANKS_TEST(DeviceMessages, AreOneGroupForAnExchange, 3) {
  if (world.rank() == 0) {
    device::use(device::Device(kNoting));
    std::vector<float> sent(5), received(5);
    std::vector<float> none;
    const Communicator& group = world.communicator();
    group.exchange(on_device(sent), 2, on_device(received), 1, 7).wait();
    group.exchange(on_device(none), 2, on_device(none), 1, 7).wait();
    EXPECT_EQ(calls, (Calls{"begin", "receive 1", "send 2", "end", "begin", "end"}));
  }
  world.block_all();
}

WEFT_RANKS_TEST(DeviceMessages, AreSingleWhereTheBackendHasNoGroups, 3) {
  takes_groups = false;
  gather(world);
  if (world.rank() == 0) EXPECT_EQ(calls, (Calls{"receive 1", "send 1", "receive 2", "send 2"}));
}

}  // namespace
}  // namespace weft::test
