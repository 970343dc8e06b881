// Transfers between host memory and the device: what they order, and what they report if somebody does not
// wait.
#include "memory/transfers.hpp"

#include <ATen/ATen.h>

#include "device/tensors.hpp"
#include "memory/pools.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using memory::Direction;
using memory::Pool;

constexpr int64_t kElements = 1000;

at::Tensor pinned(double value) {
  return memory::allocate(Pool::kPinned, kElements, at::kFloat).fill_(value);
}

at::Tensor on_device(double value) {
  return memory::allocate(Pool::kAccelerator, kElements, at::kFloat).fill_(value);
}

memory::TransferEnd copy(Direction direction, const at::Tensor& to, const at::Tensor& from) {
  memory::begin_transfer(direction);
  memory::copy(to, from);
  return memory::end_transfer();
}

std::string reports() {
  std::string all;
  for (const std::string& report : sim::take_reports()) all += report + "\n";
  return all;
}

template <class Body>
void on_device_of_one_rank(const Body& body) {
  on_sim_ranks(1, [&](World& world) {
    const OnSim sim(world);
    body(sim);
  });
}

TEST(SimTransfers, BringValuesWithoutAWaitOfTheHost) {
  on_device_of_one_rank([](const OnSim& sim) {
    const at::Tensor host = pinned(3), there = on_device(0);
    sim::reset_counters(sim.index());
    copy(Direction::kToAccelerator, there, host)->wait();
    const at::Tensor sum = there.sum();
    EXPECT_EQ(sim::counters(sim.index()).host_waits, 0);
    EXPECT_EQ(device::value_of<float>(sum), 3 * kElements);
  });
}

TEST(SimTransfers, TakeValuesUntilTheHostWaits) {
  on_device_of_one_rank([](const OnSim& sim) {
    const at::Tensor host = pinned(0), other = pinned(0);
    sim::reset_counters(sim.index());
    copy(Direction::kToHost, host, on_device(3));
    copy(Direction::kToHost, other, on_device(4));
    EXPECT_TRUE(at::isnan(host).all().item<bool>()) << "no copy was under way";
    memory::finish_transfers();
    EXPECT_EQ(host.sum().item<float>(), 3 * kElements);
    EXPECT_EQ(other.sum().item<float>(), 4 * kElements);
    EXPECT_EQ(sim::counters(sim.index()).host_waits, 1);
    memory::finish_transfers();
    EXPECT_EQ(sim::counters(sim.index()).host_waits, 1) << "nothing was under way";
  });
}

TEST(SimTransfers, AreReportedWhereNobodyWaitsForThem) {
  on_device_of_one_rank([](const OnSim&) {
    const at::Tensor host = pinned(3), there = on_device(0);
    const memory::TransferEnd brought = copy(Direction::kToAccelerator, there, host);
    there.add(1);
    EXPECT_NE(reports().find("aten::add"), std::string::npos);
    brought->wait();
    copy(Direction::kToHost, host, there);
    there.zero_();
    EXPECT_NE(reports().find("aten::zero_"), std::string::npos);
    memory::finish_transfers();
  });
}

TEST(SimTransfers, ReportAHostThatWritesWhatTheyRead) {
  on_device_of_one_rank([](const OnSim&) {
    const at::Tensor host = pinned(3), there = on_device(0);
    copy(Direction::kToAccelerator, there, host)->wait();
    host.fill_(5);
    memory::finish_transfers();
    EXPECT_NE(reports().find("the host changed pinned memory"), std::string::npos);
  });
}

TEST(SimTransfers, KeepWhatTheyReadOfTwoAtMost) {
  on_device_of_one_rank([](const OnSim& sim) {
    const at::Tensor host = pinned(0);
    const int64_t before = sim::counters(sim.index()).bytes_in_use;
    constexpr int64_t kBytes = 4096;  // of a tensor of 1000 elements, in blocks
    for (int n = 1; n <= 5; ++n) {
      copy(Direction::kToHost, host, on_device(n));
      EXPECT_EQ(sim::counters(sim.index()).bytes_in_use - before, std::min(n, 2) * kBytes) << n;
    }
    memory::finish_transfers();
    EXPECT_EQ(sim::counters(sim.index()).bytes_in_use, before);
    EXPECT_EQ(host.sum().item<float>(), 5 * kElements);
  });
}

TEST(SimTransfers, CopyAtOnceOutsideOfATransferAndInOtherMemoryOfTheHost) {
  on_device_of_one_rank([](const OnSim&) {
    const at::Tensor locked = pinned(0), other = memory::allocate(Pool::kHost, kElements, at::kFloat);
    memory::copy(locked, on_device(3));
    EXPECT_EQ(locked.sum().item<float>(), 3 * kElements);
    copy(Direction::kToHost, other, on_device(4));
    EXPECT_EQ(other.sum().item<float>(), 4 * kElements);
  });
}

TEST(SimTransfers, AreOneAtATime) {
  on_device_of_one_rank([](const OnSim&) {
    EXPECT_ERROR(memory::end_transfer(), WEFT_FAILED_PRECONDITION, "no transfer");
    memory::begin_transfer(Direction::kToHost);
    EXPECT_ERROR(memory::begin_transfer(Direction::kToHost), WEFT_FAILED_PRECONDITION, "end it");
    memory::end_transfer();
  });
}

}  // namespace

}  // namespace weft::test
