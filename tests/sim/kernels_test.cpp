// Kernels of Weft as torch operators with an implementation for the CPU alone: the device runs them too.
#include <torch/library.h>

#include <cpu/rms_norm.hpp>
#include <cpu/update_rules.hpp>
#include <tuple>

#include "sim/sim_test.hpp"

namespace weft::sim {
namespace {

constexpr double kEpsilon = 1e-5;

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor y = at::empty_like(x), scale = at::empty({x.size(0)}, x.options());
  kernels::rms_norm_forward<float>(x.size(0), x.size(1), static_cast<float>(kEpsilon),
                                   x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                                   y.data_ptr<float>(), scale.data_ptr<float>());
  return {y, scale};
}

// Updates many ranges in one call, as one launch of a device does.
void lion(at::TensorList values, at::TensorList gradients, at::TensorList momenta) {
  const kernels::LionOptions options{
      .lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.01, .scale = 1};
  for (size_t i = 0; i < values.size(); ++i)
    kernels::lion<float>(values[i].numel(), values[i].data_ptr<float>(), gradients[i].data_ptr<float>(),
                         momenta[i].data_ptr<float>(), options);
}

TORCH_LIBRARY(weft_sim_test, m) {
  m.def("rms_norm(Tensor x, Tensor weight) -> (Tensor, Tensor)");
  m.def("lion(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta) -> ()");
}
TORCH_LIBRARY_IMPL(weft_sim_test, CPU, m) {
  m.impl("rms_norm", rms_norm);
  m.impl("lion", lion);
}

template <class Signature>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

class Kernels : public SimTest {};

TEST_F(Kernels, ReturnWhatTheyReturnOnTheCpu) {
  const auto norm = operator_of<decltype(rms_norm)>("weft_sim_test::rms_norm");
  const at::Tensor x = at::randn({5, 24}), weight = at::randn({24});
  const auto [expected, expected_scale] = norm.call(x, weight);
  const at::Tensor on_device = x.to(device()), weight_on_device = weight.to(device());
  reset_counters();
  const auto [y, scale] = norm.call(on_device, weight_on_device);
  EXPECT_EQ(counters().launches, 1);
  EXPECT_EQ(counters().host_waits, 0);
  EXPECT_TRUE(y.device() == device() && scale.device() == device());
  EXPECT_TRUE(at::equal(y.cpu(), expected) && at::equal(scale.cpu(), expected_scale));
}

TEST_F(Kernels, WriteToRangesOfABuffer) {
  const auto update = operator_of<decltype(lion)>("weft_sim_test::lion");
  const at::Tensor start = at::randn({3, 40});
  const auto run = [&](const at::Tensor& buffer) {
    const auto ranges = [](const at::Tensor& row) {
      return std::vector<at::Tensor>{row.narrow(0, 0, 7), row.narrow(0, 9, 31)};
    };
    update.call(ranges(buffer[0]), ranges(buffer[1]), ranges(buffer[2]));
    return buffer;
  };
  const at::Tensor expected = run(start.clone()), there = start.to(device());
  reset_counters();
  run(there);
  EXPECT_EQ(counters().launches, 1);
  EXPECT_FALSE(at::equal(expected, start));
  EXPECT_TRUE(at::equal(there.cpu(), expected));
}

TEST_F(Kernels, AreOrderedLikeOthers) {
  const auto norm = operator_of<decltype(rms_norm)>("weft_sim_test::rms_norm");
  const at::Tensor x = at::ones({5, 24}, floats()), weight = at::ones({24}, floats());
  const c10::Stream side = new_stream();
  synchronise();
  at::Tensor(weight).mul_(2);
  at::Tensor y;
  {
    const c10::StreamGuard on_side(side);
    y = std::get<0>(norm.call(x, weight));
  }
  order(side, current_stream());
  expect_reports({"weft_sim_test::rms_norm reads on sim:0 stream"});
}

}  // namespace
}  // namespace weft::sim
