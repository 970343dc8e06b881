// Copies between the device and pinned memory, for which the host does not wait.
#include "sim/sim_test.hpp"

namespace weft::sim {
namespace {

class PinnedMemory : public SimTest {};

TEST_F(PinnedMemory, HasACopysValuesWhenTheHostHasWaited) {
  const at::Tensor host = at::empty({4}, pinned()), values = at::arange(4, floats());
  EXPECT_TRUE(host.is_pinned());
  c10::Event copied(c10::kPrivateUse1);
  host.copy_(values, /*non_blocking=*/true);
  copied.record(current_stream());
  EXPECT_EQ(counters().host_waits, 0);
  EXPECT_TRUE(host.isnan().all().item<bool>());
  copied.synchronize();
  EXPECT_EQ(counters().host_waits, 1);
  EXPECT_TRUE(at::equal(host, at::arange(4, at::kFloat)));
}

TEST_F(PinnedMemory, MustNotChangeWhileItIsCopied) {
  const at::Tensor host = at::ones({4}, pinned()), values = at::empty({4}, floats());
  values.copy_(host, true);
  host.fill_(9);
  synchronise();
  expect_reports({"the host changed pinned memory while a copy to the device could still read it"});
  values.copy_(host, true);
  synchronise();
  host.fill_(3);
}

TEST_F(PinnedMemory, IsReadByAStreamBehindTheCopyThatFillsIt) {
  const at::Tensor host = at::empty({4}, pinned()), values = at::arange(4, floats());
  const at::Tensor back = at::empty({4}, floats());
  host.copy_(values, true);
  back.copy_(host, true);
  EXPECT_TRUE(at::equal(back.cpu(), at::arange(4, at::kFloat)));
}

TEST_F(PinnedMemory, IsReadByAnotherStreamBehindAnEvent) {
  for (const bool ordered : {false, true}) {
    synchronise();
    const at::Tensor host = at::empty({4}, pinned()), values = at::arange(4, floats());
    const at::Tensor back = at::empty({4}, floats());
    const c10::Stream copies = new_stream();
    order(current_stream(), copies);
    {
      const c10::StreamGuard on_copies(copies);
      host.copy_(values, true);
    }
    if (ordered) order(copies, current_stream());
    back.copy_(host, true);
    synchronise();
    if (!ordered)
      expect_reports(
          {"copy to the device reads on sim:0 stream 0 without waiting for copy to the host on sim:0 "
           "stream"});
  }
}

TEST_F(PinnedMemory, IsCountedByBytesAndWaits) {
  const at::Tensor host = at::ones({1000}, pinned()), pageable = at::ones({1000});
  const at::Tensor values = at::empty({1000}, floats());
  values.copy_(host, true);
  host.copy_(values, true);
  EXPECT_EQ(counters().host_waits, 0);
  values.copy_(pageable, true);
  EXPECT_EQ(counters().host_waits, 1) << "memory that is not pinned";
  values.copy_(host, false);
  pageable.copy_(values, true);
  EXPECT_EQ(counters().host_waits, 3);
  EXPECT_EQ(counters().bytes_to_device, 3 * 4000);
  EXPECT_EQ(counters().bytes_to_host, 2 * 4000);
  EXPECT_EQ(counters().launches, 5);
}

}  // namespace
}  // namespace weft::sim
