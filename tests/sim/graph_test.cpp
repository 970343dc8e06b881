// Graphs: work that is captured once, and done again as one launch at the same addresses.
#include "sim/sim_test.hpp"

namespace weft::sim {

namespace {

class Graphs : public SimTest {
 protected:
  void SetUp() override {
    SimTest::SetUp();
    on_side_.reset_stream(new_stream());
  }

  c10::OptionalStreamGuard on_side_;
};

TEST_F(Graphs, DoTheirWorkWhenTheyAreReplayed) {
  const at::Tensor a = at::ones({256}, floats()), sum = at::zeros({256}, floats());
  at::Tensor product;
  const auto replay = capture([&] {
    product = a * 3;
    sum.add_(product + 1);
  });
  EXPECT_TRUE(product.cpu().isnan().all().item<bool>()) << "nothing is done while it is captured";
  EXPECT_EQ(sum.cpu()[0].item<float>(), 0);
  synchronise();
  reset_counters();
  replay();
  EXPECT_EQ(counters().launches, 1);
  EXPECT_EQ(product.cpu()[0].item<float>(), 3);
  EXPECT_EQ(sum.cpu()[0].item<float>(), 4);
  a.fill_(2);
  replay();
  EXPECT_EQ(sum.cpu()[255].item<float>(), 4 + 7);
}

TEST_F(Graphs, DrawOtherNumbersEachTime) {
  at::Tensor drawn;
  const auto replay = capture([&] { drawn = at::rand({256}, floats()); });
  replay();
  const at::Tensor first = drawn.cpu();
  replay();
  EXPECT_FALSE(at::equal(drawn.cpu(), first));
}

TEST_F(Graphs, RefuseWhatADeviceCannotRecord) {
  const at::Tensor a = at::ones({256}, floats()), here = at::empty({256}, pinned());
  expect_throw("a wait of the host while a graph is captured", [&] { capture([&] { synchronise(); }); });
  expect_throw("copy to the host while a graph is captured", [&] { capture([&] { a.cpu(); }); });
  expect_throw("copy to the device while a graph is captured",
               [&] { capture([&] { a.copy_(here, /*non_blocking=*/true); }); });
  expect_throw("is given to stream 0", [&] {
    capture([&] {
      const c10::StreamGuard other(c10::Stream(c10::Stream::DEFAULT, device()));
      a.add_(1);
    });
  });
  expect_throw("the default stream", [&] {
    const c10::StreamGuard other(c10::Stream(c10::Stream::DEFAULT, device()));
    capture([] {});
  });
  a.add_(1);
  EXPECT_EQ(a.cpu()[0].item<float>(), 2) << "what was captured before an error has not happened";
}

}  // namespace

}  // namespace weft::sim
