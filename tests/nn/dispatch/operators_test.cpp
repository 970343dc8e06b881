// Weft's operators in host memory and on the simulated accelerator, which runs the host's kernels on memory
// that the host cannot read, and counts launches and waits.
#include "dispatch/operators.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "cpu/cross_entropy.hpp"
#include "device/reading.hpp"
#include "nn/dispatch/operators_fixture.hpp"
#include "optim/rules.hpp"
#include "support/expect_error.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"

namespace weft::test {

namespace {

std::vector<at::Tensor> ranges(at::ScalarType dtype = at::kFloat) {
  return {at::randn({7}, dtype), at::randn({300}, dtype), at::randn({1}, dtype)};
}
std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& tensor : tensors) made.push_back(tensor.clone());
  return made;
}

TEST_F(Operators, HaveAKernelForHostMemoryAndForADeviceThatRegistersOne) {
  const at::Tensor here = at::ones({2}), far = there(here), nowhere = at::ones({2}, at::kMeta);
  operators::for_each([&](auto each) {
    using Operator = decltype(each);
    EXPECT_TRUE(has_kernel<Operator>(here)) << each.kName;
    EXPECT_TRUE(handle_of<Operator>().hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) << each.kName;
    EXPECT_TRUE(has_kernel<Operator>(far)) << each.kName << ": the fallback of the simulated accelerator";
  });
  EXPECT_TRUE(has_layer_kernel<operators::RmsNorm>(nowhere));
  EXPECT_FALSE(has_layer_kernel<operators::Dropout>(nowhere));
  EXPECT_FALSE(has_layer_kernel<operators::RmsNorm>(far.to(at::kDouble)))
      << "kernels of devices compute in fp32";
}

TEST_F(Operators, RmsNormIsOneLaunchEachWay) {
  const at::Tensor x = at::randn({6, 24}), weight = at::randn({24}), dy = at::randn({6, 24});
  const auto [y, scale] = call<operators::RmsNorm>(x, weight, 1e-5);
  const auto [dx, dweight] = call<operators::RmsNormBackward>(dy, x, weight, scale, dy, kBoth);
  const at::Tensor far = there(x), far_weight = there(weight), far_dy = there(dy);
  sim::reset_counters();
  const auto [far_y, far_scale] = call<operators::RmsNorm>(far, far_weight, 1e-5);
  const auto [far_dx, far_dweight] =
      call<operators::RmsNormBackward>(far_dy, far, far_weight, far_scale, far_dy, kBoth);
  EXPECT_EQ(sim::counters().launches, 2);
  EXPECT_EQ(sim::counters().host_waits, 0);
  expect_equal({far_y, far_scale, far_dx, far_dweight}, {y, scale, dx, dweight});
  const auto [none, alone] =
      call<operators::RmsNormBackward>(dy, x, weight, scale, std::nullopt, std::array<bool, 2>{false, true});
  EXPECT_FALSE(none.defined());
  EXPECT_TRUE(at::equal(alone, dweight));
}

TEST_F(Operators, DropoutDrawsTheSameMaskOnEveryDeviceWithoutAWait) {
  const nn::Dropout dropout(0.4);
  const auto run = [&](const at::Tensor& given, const at::Tensor& residual) {
    at::manual_seed(11);
    const at::Tensor x = given.clone().requires_grad_(true);
    const at::Tensor y = dropout.added(residual, x);
    y.sum().backward();
    return std::vector<at::Tensor>{y.detach(), x.grad()};
  };
  const at::Tensor x = at::randn({50, 90}), residual = at::randn({50, 90});
  const std::vector<at::Tensor> here = run(x, residual);
  const at::Tensor far = there(x), far_residual = there(residual);
  sim::reset_counters();
  const std::vector<at::Tensor> results = run(far, far_residual);
  EXPECT_EQ(sim::counters().host_waits, 0);
  expect_equal(results, here);
  EXPECT_NE(here[1].eq(0).sum().item<int64_t>(), 0);
}

struct Loss {
  at::Tensor sum, gradient;
};
Loss loss_of(const at::Tensor& given, const at::Tensor& labels, std::optional<double> expected = {}) {
  const at::Tensor leaf = given.detach().clone().requires_grad_(true);
  const at::Tensor sum = nn::cross_entropy_sum(leaf * 1, labels, -100, expected);
  (sum * 0.5).backward();
  return {sum.detach(), leaf.grad()};
}

TEST_F(Operators, CrossEntropyMakesTheHostWaitForNothing) {
  const at::Tensor logits = at::randn({9, 40}), labels = at::randint(40, {9}, at::kLong);
  labels[2] = -100;
  const Loss here = loss_of(logits, labels);
  const at::Tensor far = there(logits), far_labels = there(labels);
  for (const std::optional<double> expected : {std::optional<double>(), std::optional(0.5)}) {
    sim::reset_counters();
    const Loss found = loss_of(far, far_labels, expected);
    EXPECT_EQ(sim::counters().host_waits, 0);
    expect_equal({found.sum, found.gradient}, {here.sum, here.gradient});
  }
}

TEST_F(Operators, CrossEntropyTakesHalfPrecisionOnADevice) {
  const at::Tensor logits = at::randn({9, 40}).to(at::kBFloat16), labels = at::randint(40, {9}, at::kLong);
  const Loss exact = loss_of(logits.to(at::kFloat), labels), found = loss_of(there(logits), there(labels));
  EXPECT_EQ(found.sum.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(found.sum.cpu(), exact.sum));
  EXPECT_TRUE(at::equal(found.gradient.cpu(), exact.gradient.to(at::kBFloat16)));
  const Loss expected = loss_of(there(logits), there(labels), 0.5);
  EXPECT_TRUE(at::equal(expected.sum.cpu(), exact.sum));
  EXPECT_TRUE(at::equal(expected.gradient.cpu(), exact.gradient.to(at::kBFloat16)));
}

TEST_F(Operators, ALabelOutOfRangeOnADeviceIsAnError) {
  const at::Tensor logits = there(at::randn({3, 5}));
  sim::expect_throw("of range", [&] {
    nn::cross_entropy_sum(logits, there(at::tensor({1, 5, 2}, at::kLong)));
  });
}

// Two ranks in one process: what their collectives do is done by hand.
TEST_F(Operators, CrossEntropyOfASplitVocabularyIsThatOfTheWhole) {
  const int64_t rows = 6, classes = 21, split = 8;
  const at::Tensor logits = at::randn({rows, classes}), labels = at::randint(classes, {rows}, at::kLong);
  labels[1] = -1;
  const auto [whole, whole_normalisers] = call<operators::CrossEntropy>(logits, labels);
  for (const bool far : {false, true}) {
    std::vector<at::Tensor> of_rank, peaks, parts, local;
    for (const auto& [begin, end] : {std::pair{int64_t{0}, split}, {split, classes}}) {
      const at::Tensor here = labels.sub(begin);
      const at::Tensor mine =
          here.masked_fill(here.lt(0).logical_or(here.ge(end - begin)), kernels::kElsewhere)
              .masked_fill(labels.eq(-1), -1);
      const at::Tensor own = logits.slice(1, begin, end).contiguous();
      of_rank.push_back(far ? there(own) : own);
      local.push_back(far ? there(mine) : mine);
      const auto [peak, part] = call<operators::CrossEntropyParts>(of_rank.back(), local.back());
      peaks.push_back(peak);
      parts.push_back(part);
    }
    const at::Tensor all = at::maximum(peaks[0], peaks[1]);
    for (size_t r = 0; r < 2; ++r) call<operators::CrossEntropyRebase>(parts[r], local[r], peaks[r], all);
    const at::Tensor sums = parts[0] + parts[1];
    for (size_t r = 0; r < 2; ++r) {
      const auto [sum, normalisers] = call<operators::CrossEntropyFinish>(sums, local[r], all);
      EXPECT_NEAR(sum.cpu().item<double>(), whole.item<double>(), 1e-5);
      const at::Tensor gradient = at::empty_like(of_rank[r]);
      call<operators::CrossEntropyBackward>(at::ones({}, sums.options()), of_rank[r], local[r], normalisers,
                                            gradient);
      const at::Tensor expected = at::empty_like(logits);
      call<operators::CrossEntropyBackward>(at::ones({}), logits, labels, whole_normalisers, expected);
      EXPECT_TRUE(at::allclose(gradient.cpu(),
                               r == 0 ? expected.slice(1, 0, split) : expected.slice(1, split), 1e-5, 1e-6));
    }
  }
}

TEST_F(Operators, TheNormOfAllGradientsIsOneLaunchAndOneWait) {
  const std::vector<at::Tensor> gradients = {at::randn({7}), at::randn({300}).to(at::kBFloat16)};
  const std::vector<at::Tensor> far = there(gradients);
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    double wanted = 0;
    for (const at::Tensor& gradient : gradients) {
      const at::Tensor sizes = gradient.to(at::kDouble).abs();
      wanted = std::isinf(p) ? std::max(wanted, sizes.max().item<double>())
                             : wanted + sizes.pow(p).sum().item<double>();
    }
    sim::reset_counters();
    device::Reading reading;
    double found = 0, other = 1;
    reading.add(call<operators::NormPart>(far, p), &found);
    EXPECT_EQ(sim::counters().launches, 1);
    EXPECT_EQ(sim::counters().host_waits, 0);
    reading.add(there(at::full({}, 2.0, at::kDouble)), &other);
    const int64_t before = sim::counters().host_waits;
    reading.read();
    EXPECT_EQ(sim::counters().host_waits, before + 1) << "for both numbers";
    EXPECT_NEAR(found, wanted, 1e-12 * wanted);
    EXPECT_EQ(other, 3);
    reading.read();
    EXPECT_EQ(other, 3) << "nothing is added twice";
  }
  far[1].fill_(std::nan(""));
  EXPECT_TRUE(std::isinf(call<operators::NormPart>(far, 2.0).cpu().item<double>()));
}

// Runs `rule` for two steps of ranges here and there, and compares all values and states. There the device
// has the factor if it `decides`.
void expect_rule(const std::string& name, const optim::Hyper& given, double factor, bool decides = false) {
  SCOPED_TRACE(name);
  const auto rule = optim::rule(name);
  const optim::Hyper options = optim::complete(*rule, given);
  const std::vector<at::Tensor> values = ranges(), gradients = ranges();
  const auto run = [&](bool far) {
    std::vector<optim::States> states(values.size()), of_wholes(values.size());
    std::vector<optim::Whole> wholes(values.size());
    std::vector<at::Tensor> own = copies(values);
    for (at::Tensor& value : own)
      if (far) value = value.to(sim::device());
    for (int64_t step = 1; step <= 2; ++step) {
      optim::UpdateBatch batch{options, step, decides && far ? 100 : factor, {}, {}};
      if (decides && far) batch.decision = at::tensor({1.0, factor, 0.0}, at::kDouble).to(sim::device());
      std::vector<std::vector<int64_t>> shapes;
      for (const at::Tensor& value : values) shapes.push_back(value.sizes().vec());
      shapes[1] = {20, 15};
      std::vector<Cut> cuts;
      for (const auto& shape : shapes) cuts.push_back(Cut::whole(shape));
      for (size_t i = 0; i < values.size(); ++i) {
        wholes[i].shape = shapes[i];
        wholes[i].state = &of_wholes[i];
        wholes[i].sums.clear();
        batch.parameters.push_back(&wholes[i]);
        const at::Tensor gradient = gradients[i].clone();
        batch.slices.push_back({own[i], far ? gradient.to(sim::device()) : gradient, &states[i], &wholes[i],
                                &cuts[i], 0, 0, values[i].numel()});
      }
      for (int round = 0; round <= rule->rounds(); ++round) {
        for (optim::Whole& whole : wholes)
          whole.partial.assign(
              static_cast<size_t>(round < rule->rounds() ? rule->num_sums(round, whole.shape) : 0), 0.0);
        device::Reading reading;
        if (round == 0)
          for (optim::Slice& slice : batch.slices) rule->measure(slice, options, reading);
        if (round > 0) rule->update(round, batch, reading);
        reading.read();
        for (optim::Whole& whole : wholes) whole.sums.push_back(whole.partial);
      }
    }
    for (const optim::States& of_one : states)
      for (const auto& [state, tensor] : of_one) own.push_back(tensor);
    for (const optim::States& of_one : of_wholes)  // in host memory
      for (const auto& [state, tensor] : of_one) own.push_back(far ? tensor.to(sim::device()) : tensor);
    return own;
  };
  const std::vector<at::Tensor> here = run(false);
  EXPECT_TRUE(rule->runs_on(values[0].to(sim::device())));
  expect_equal(run(true), here);
  EXPECT_FALSE(at::equal(here[1], values[1]));
}

TEST_F(Operators, RulesUpdateValuesOfADevice) {
  for (const double factor : {1.0, 0.25}) {
    expect_rule("adam", {{"weight_decay", 0.1}}, factor);
    expect_rule("adamw", {}, factor);
    expect_rule("sgd", {{"momentum", 0.9}}, factor);
    expect_rule("lion", {{"weight_decay", 0.1}}, factor);
    for (const char* name : {"adamw", "sgd", "lion"}) {
      EXPECT_TRUE(optim::rule(name)->takes_decisions());
      expect_rule(name, {{"weight_decay", 0.1}}, factor, true);
    }
    expect_rule("lars", {{"momentum", 0.9}, {"weight_decay", 0.1}}, factor);
    expect_rule("lamb", {{"bias_correction", 1}, {"weight_decay", 0.1}}, factor);
    expect_rule("adafactor", {{"weight_decay", 0.1}}, factor);
    expect_rule("adafactor", {{"beta1", 0.9}}, factor);
    expect_rule("came", {{"lr", 0.01}, {"weight_decay", 0.1}}, factor);
  }
}

TEST_F(Operators, ADeviceDecidesWithoutAWait) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor finite = there(at::full({}, 1024.0, at::kDouble)),
                   infinite = there(at::full({}, infinity, at::kDouble));
  sim::reset_counters();
  const at::Tensor clipped = call<operators::Decide>(finite, 2.0, 2.0, 0.5, 8.0, true),
                   overflow = call<operators::Decide>(infinite, 2.0, 2.0, 0.5, 8.0, true),
                   exact = call<operators::Decide>(infinite, infinity, 0.0, 0.5, 8.0, false);
  EXPECT_EQ(sim::counters().host_waits, 0);
  expect_equal(clipped, at::tensor({4.0, 0.5 * (2 / (4 + 1e-6)) / 8, 0.0}, at::kDouble));
  EXPECT_EQ(overflow.cpu()[2].item<double>(), 1);
  EXPECT_EQ(exact.cpu()[2].item<double>(), 0);
  // What an overflow skips stays as it is.
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const std::vector<at::Tensor> before = {at::randn({7}, type)}, gradient = {there(at::randn({7}, type))};
    const std::vector<at::Tensor> w = there(before), m = there(before), v = there(before);
    call<operators::Adam>(w, gradient, m, v, at::TensorList(), 3.0, 0.01, 0.9, 0.99, 1e-8, 0.1, true, 1.0,
                          overflow);
    call<operators::Sgd>(w, gradient, m, at::TensorList(), 0.01, 0.9, 0.0, 0.1, true, false, 1.0, overflow);
    call<operators::Lion>(w, gradient, m, 0.01, 0.9, 0.99, 0.1, 1.0, overflow);
    for (const auto* list : {&w, &m, &v}) expect_equal((*list)[0], before[0]);
  }
}

TEST_F(Operators, ABatchGoesToTheDeviceWithoutAWait) {
  const at::Tensor batch = at::arange(1000, at::kLong);
  sim::reset_counters();
  const at::Tensor far = device::on_device(batch);
  EXPECT_EQ(sim::counters().host_waits, 0);
  expect_equal(far, batch);
  EXPECT_TRUE(device::on_device(far).is_same(far));
}

}  // namespace

}  // namespace weft::test
