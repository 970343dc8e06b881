// Streams and events: an access that no event orders behind an earlier one is found, the others are not.
#include "sim/sim_test.hpp"
#include "sim/small_model.hpp"

namespace weft::sim {
namespace {

class Streams : public SimTest {};

// Gathers parameters ahead on a stream of its own and uses them.
at::Tensor gather_and_use(const at::Tensor& shard, bool event) {
  const c10::Stream gathers = new_stream();
  at::Tensor gathered = at::empty({2, shard.numel()}, shard.options());
  order(current_stream(), gathers);
  {
    const c10::StreamGuard on_gathers(gathers);
    gathered[0].copy_(shard);
    gathered[1].copy_(shard);
  }
  if (event) order(gathers, current_stream());
  at::Tensor used = gathered * 2;
  if (!event) order(gathers, current_stream());
  return used;
}

TEST_F(Streams, ReportAGatherThatIsUsedWithoutAnEvent) {
  const at::Tensor shard = at::ones({256}, floats());
  gather_and_use(shard, /*event=*/true);
  expect_reports({});
  gather_and_use(shard, /*event=*/false);
  expect_reports({"aten::mul.out reads on sim:0 stream 0 without waiting for copy on sim:0 stream"});
}

TEST_F(Streams, ReportAStreamThatStartsTooEarly) {
  at::Tensor tensor = at::ones({256}, floats());
  const c10::Stream side = new_stream();
  {
    const c10::StreamGuard on_side(side);
    tensor.mul_(2);
  }
  order(side, current_stream());
  expect_reports({"without waiting for aten::fill_.Scalar on sim:0 stream 0, which writes it"});
}

TEST_F(Streams, ReportAWriteThatOvertakesARead) {
  at::Tensor tensor = at::ones({256}, floats());
  const c10::Stream side = new_stream();
  order(current_stream(), side);
  at::Tensor sum;
  {
    const c10::StreamGuard on_side(side);
    sum = tensor.sum();
  }
  tensor.zero_();
  order(side, current_stream());
  expect_reports({"aten::zero_ writes on sim:0 stream 0 without waiting for aten::sum"});
}

TEST_F(Streams, ReportMemoryOfAnotherStreamThatWasNotWaitedFor) {
  at::ones({256}, floats());
  const at::Tensor tensor = at::empty({256}, floats());
  const c10::Stream side = new_stream();
  {
    const c10::StreamGuard on_side(side);
    tensor.fill_(1);
  }
  order(side, current_stream());
  expect_reports({"without waiting for its allocation on sim:0 stream 0"});
}

TEST_F(Streams, MayUsePartsOfABufferAtOnce) {
  const at::Tensor buffer = at::zeros({512}, floats());
  const c10::Stream side = new_stream();
  order(current_stream(), side);
  const auto on_side = [&](const at::Tensor& part) {
    const c10::StreamGuard guard(side);
    at::Tensor(part).fill_(2);
  };
  on_side(buffer.narrow(0, 256, 256));
  buffer.narrow(0, 0, 256).fill_(1);
  expect_reports({});
  on_side(buffer.narrow(0, 255, 2));
  expect_reports({"aten::fill_.Scalar writes on sim:0 stream"});
  order(side, current_stream());
  on_side(buffer.narrow(0, 256, 256));
  buffer.add_(1);
  expect_reports(
      {"aten::add.out reads on sim:0 stream 0 without waiting for aten::fill_.Scalar on sim:0 stream"});
  order(side, current_stream());
}

TEST_F(Streams, ReportMemoryThatIsFreedWhileAnotherStreamUsesIt) {
  const c10::Stream side = new_stream();
  const auto use_and_free = [&](bool ordered, bool recorded) {
    at::Tensor tensor = at::ones({256}, floats()), result;
    order(current_stream(), side);
    {
      const c10::StreamGuard on_side(side);
      result = tensor * 2;
    }
    if (ordered) order(side, current_stream());
    if (recorded) tensor.record_stream(side);
    tensor = at::Tensor();
    synchronise();
  };
  use_and_free(true, false);
  use_and_free(false, true);
  expect_reports({});
  use_and_free(false, false);
  expect_reports({"memory of 1024 bytes is freed on sim:0 stream 0 while aten::mul.out on sim:0 stream"});
}

TEST_F(Streams, AreOrderedByAWaitOfTheHost) {
  at::Tensor tensor = at::ones({256}, floats());
  const c10::Stream side = new_stream();
  synchronise();
  {
    const c10::StreamGuard on_side(side);
    tensor.mul_(2);
  }
  side.synchronize();
  tensor.add_(1);
  expect_reports({});
  EXPECT_EQ(counters().host_waits, 2);
}

TEST_F(Streams, EndWhenTheyAreAskedAgain) {
  c10::Event event(c10::kPrivateUse1);
  const at::Tensor tensor = at::ones({256}, floats());
  event.record(current_stream());
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(event.query());
  EXPECT_EQ(counters().host_waits, 0);
}

TEST_F(Streams, AreNotOrderedAcrossDevices) {
  c10::Event event(c10::kPrivateUse1);
  event.record(current_stream(0));
  expect_throw("an event of sim:0 cannot order sim:1", [&] { event.block(current_stream(1)); });
}

TEST_F(Streams, OverlapInSimulatedTime) {
  const auto time = [](const c10::Stream& second) {
    const at::Tensor a = at::zeros({1 << 20}, floats()), b = at::zeros({1 << 20}, floats());
    synchronise();
    const double start = host_time();
    for (int i = 0; i < 10; ++i) {
      a.add_(1);
      const c10::StreamGuard guard(second);
      b.add_(1);
    }
    synchronise();
    return host_time() - start;
  };
  const double serial = time(current_stream());
  EXPECT_LT(time(new_stream()), 0.75 * serial);
  EXPECT_NEAR(time(current_stream()), serial, 1e-6);
}

TEST_F(Streams, AreTheSameInForwardAndBackward) {
  SmallModel model(device());
  const auto [ids, labels] = SmallModel::batch(device());
  const c10::Stream side = new_stream();
  synchronise();
  at::Tensor loss;
  {
    const c10::StreamGuard on_side(side);
    loss = model.loss(ids, labels);
  }
  order(side, current_stream());
  loss.backward();
  std::vector<at::Tensor> sums;
  for (const at::Tensor& gradient : model.gradients()) sums.push_back(gradient.sum());
  order(current_stream(), side);  // on which the gradients were allocated, and so are freed
  loss = at::Tensor();
  for (at::Tensor& parameter : model.parameters) parameter.mutable_grad() = at::Tensor();
  expect_reports({});
}

}  // namespace
}  // namespace weft::sim
