// Operators of libtorch on the device: the CPU's values, and what a device refuses.
#include "sim/sim_test.hpp"

namespace weft::sim {
namespace {

class Operators : public SimTest {
 protected:
  const at::Tensor six_ = at::arange(6, at::kFloat);
};

TEST_F(Operators, ComputeWhatTheCpuComputes) {
  const at::Tensor x = six_.to(device());
  EXPECT_EQ(x.device().str(), "sim:0");
  EXPECT_TRUE(at::equal((x.view({2, 3}).t() + 1).cpu(), six_.view({2, 3}).t() + 1));
  EXPECT_TRUE(at::equal(at::cat({x, x.flip(0)}).cpu(), at::cat({six_, six_.flip(0)})));
  EXPECT_TRUE(at::equal(at::softmax(x, 0).cpu(), at::softmax(six_, 0)));
  const auto [values, indices] = x.topk(2);
  EXPECT_TRUE(at::equal(values.cpu(), std::get<0>(six_.topk(2))));
  EXPECT_TRUE(at::equal(indices.cpu(), std::get<1>(six_.topk(2))));
  EXPECT_EQ(x.sum().item<float>(), 15);
  EXPECT_EQ(x.narrow(0, 3, 1).item<float>(), 3);
}

TEST_F(Operators, MakeViewsOfTheSameMemory) {
  const at::Tensor x = six_.to(device());
  const int64_t launches = counters().launches;
  const at::Tensor column = x.view({2, 3}).t().select(0, 1);
  EXPECT_EQ(counters().launches, launches);
  EXPECT_TRUE(column.is_alias_of(x));
  at::Tensor(column).zero_();
  EXPECT_EQ(x.sum().item<float>(), 10);
}

TEST_F(Operators, ResizeTheirOutputs) {
  at::Tensor x = at::empty({2}, floats());
  x.resize_({3, 4}).fill_(2);
  at::Tensor product = at::empty({0}, floats());
  at::mm_out(product, x, x.t());
  EXPECT_EQ(product.sizes(), at::IntArrayRef({3, 3}));
  EXPECT_TRUE(at::equal(product.cpu(), at::full({3, 3}, 16.0f)));
}

TEST_F(Operators, TakeStoragesOfOthers) {
  const at::Tensor x = six_.to(device());
  at::Tensor part = at::empty({0}, floats());
  part.set_(x.storage(), 2, {2}, {1});
  EXPECT_EQ(part.sum().item<float>(), 5);
  part.set_(x);
  EXPECT_TRUE(part.is_alias_of(x));
}

TEST_F(Operators, WriteToListsOfTensors) {
  std::vector<at::Tensor> list{at::ones({3}, floats()), at::full({2}, 2, floats())};
  at::_foreach_mul_(list, 3.0);
  EXPECT_TRUE(at::equal(at::cat(list).cpu(), at::tensor({3.0f, 3.0f, 3.0f, 6.0f, 6.0f})));
}

TEST_F(Operators, RefuseTensorsOfTheHost) {
  const at::Tensor x = six_.to(device());
  expect_throw("a tensor of shape [2] is on cpu, must be on a sim device", [&] {
    at::embedding(x.view({3, 2}), at::ones({2}, at::kLong));
  });
  expect_throw("same device", [&] { x.add(six_); });
  EXPECT_EQ(x.add(at::scalar_tensor(1)).sum().item<float>(), 21) << "numbers are passed along";
}

TEST_F(Operators, RefuseTensorsOfAnotherDevice) {
  const at::Tensor here = six_.to(device(0)), there = six_.to(device(1));
  EXPECT_ANY_THROW(here.add(there));
  expect_throw("tensors are on sim:0 and on sim:1", [&] {
    at::embedding(here.view({3, 2}), there.to(at::kLong));
  });
  expect_throw("copies between sim:0 and sim:1", [&] { there.copy_(here); });
}

TEST_F(Operators, MakeTheHostWaitIfItMustKnowValues) {
  const at::Tensor x = six_.to(device()), indices = at::ones({2}, floats().dtype(at::kLong));
  reset_counters();
  x.index({indices});
  x.index_select(0, indices);
  at::where(x.gt(2), x, -x).sum();
  EXPECT_EQ(counters().host_waits, 0);
  x.index({x.gt(2)});
  EXPECT_EQ(counters().host_waits, 1);
  x.gt(2).nonzero();
  EXPECT_EQ(counters().host_waits, 2);
  x.max().item<float>();
  EXPECT_EQ(counters().host_waits, 3);
  EXPECT_EQ(counters().bytes_to_host, 4);
}

}  // namespace
}  // namespace weft::sim
