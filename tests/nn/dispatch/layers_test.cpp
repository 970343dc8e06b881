// Layers whose kernels devices have: on the simulated accelerator, which runs the host's kernels, they give
// the results of the host.
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "device/padded_rows.hpp"
#include "device/reading.hpp"
#include "dispatch/operators.hpp"
#include "nn/dispatch/operators_fixture.hpp"
#include "optim/rules.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/rotary.hpp"

namespace weft::test {

namespace {

using Tensors = std::vector<at::Tensor>;

// Returns the result of `run` for these inputs, and their gradients for a gradient of ones, 1/2, 1/3, ...
Tensors with_gradients(const Tensors& given, const std::function<at::Tensor(const Tensors&)>& run) {
  Tensors inputs;
  for (const at::Tensor& tensor : given) inputs.push_back(tensor.detach().clone().requires_grad_(true));
  const at::Tensor y = run(inputs);
  y.backward(
      at::arange(1, y.numel() + 1, y.options().dtype(at::kFloat)).reciprocal().reshape(y.sizes()).to(y));
  Tensors results{y.detach()};
  for (const at::Tensor& input : inputs) results.push_back(input.grad());
  return results;
}

class DeviceLayers : public Operators {
 protected:
  // Compares both ways of a layer on the device with those of the host, and counts the device's launches.
  void expect_like_host(const Tensors& given, int64_t launches,
                        const std::function<at::Tensor(const Tensors&)>& run) {
    const Tensors here = with_gradients(given, run);
    const Tensors moved = there(given);
    sim::reset_counters();
    const Tensors far = with_gradients(moved, run);
    const int64_t counted = sim::counters().launches;
    EXPECT_EQ(sim::counters().host_waits, 0);
    expect_equal(far, here);
    sim::reset_counters();
    with_gradients(there(given), [&](const Tensors& inputs) { return inputs[0] * 1; });
    EXPECT_LE(counted, sim::counters().launches + launches) << "of the layer itself";
  }
};

TEST_F(DeviceLayers, LayerNormIsOneLaunchEachWay) {
  nn::LayerNorm norm(24, 1e-5, at::kFloat);
  expect_like_host({at::randn({3, 5, 24}), at::randn({24}), at::randn({24})}, 6, [&](const Tensors& in) {
    norm.weight = in[1];
    norm.bias = in[2];
    return norm(in[0]);
  });
}

// Also if only one of the two is used.
TEST_F(DeviceLayers, BackwardOfANormAddsTheGradientOfAResidualConnection) {
  nn::LayerNorm layer_norm(24, 1e-5, at::kFloat);
  nn::RmsNorm rms_norm(24, 1e-5, at::kFloat);
  const auto branch_of = [&](bool rms, const Tensors& in) {
    layer_norm.weight = rms_norm.weight = in[1];
    layer_norm.bias = in[2];
    return rms ? rms_norm.branch(in[0]) : layer_norm.branch(in[0]);
  };
  const Tensors given = {at::randn({3, 5, 24}), at::randn({24}), at::randn({24})};
  for (const bool rms : {false, true}) {
    for (const auto& [kept, normed] : {std::pair{2, 3}, {2, 0}, {0, 3}}) {
      SCOPED_TRACE(fmt::format("rms {}, {}, {}", rms, kept, normed));
      const auto sum = [&, kept = kept, normed = normed](const at::Tensor& x, const at::Tensor& y) {
        const at::Tensor none = at::zeros_like(x);
        return (kept != 0 ? x * kept : none) + (normed != 0 ? y * normed : none);
      };
      const auto joined = [&](const Tensors& in) {
        const nn::Branch branch = branch_of(rms, in);
        return sum(branch.kept, branch.normed) + in[1].sum() * 0 + in[2].sum() * 0;
      };
      const auto apart = [&](const Tensors& in) {
        branch_of(rms, in);
        return sum(in[0], rms ? rms_norm(in[0]) : layer_norm(in[0])) + in[1].sum() * 0 + in[2].sum() * 0;
      };
      expect_equal(with_gradients(there(given), joined), with_gradients(given, joined));
      const Tensors found = with_gradients(there(given), joined), wanted = with_gradients(given, apart);
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(is_near(found[i].cpu(), wanted[i], 1e-6)) << i;
    }
  }
}

TEST_F(DeviceLayers, BackwardOfLinearsOfOneInputAddsUpItsGradient) {
  const Tensors given = {at::randn({3, 5, 16}), at::randn({24, 16}), at::randn({8, 16}), at::randn({8})};
  const auto run = [](const Tensors& in) {
    const nn::Linear first(in[1], {}), second(in[2], in[3]), unused(in[2].detach(), {});
    const std::vector<at::Tensor> results = nn::linears(in[0], {&first, &unused, &second});
    return at::cat({results[2], results[0]}, -1);
  };
  const Tensors wanted = with_gradients(given, run);
  const Tensors moved = there(given);
  sim::reset_counters();
  const Tensors found = with_gradients(moved, run);
  const int64_t launches = sim::counters().launches;
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(is_near(found[i].cpu(), wanted[i], 1e-5)) << i;
  sim::reset_counters();
  with_gradients(moved, [](const Tensors& in) {
    const nn::Linear first(in[1], {}), second(in[2], in[3]), unused(in[2].detach(), {});
    const at::Tensor one = first(in[0]), other = unused(in[0]);
    return at::cat({second(in[0]), one}, -1);
  });
  EXPECT_EQ(launches, sim::counters().launches - 1) << "the sum of two gradients";
}

TEST_F(DeviceLayers, BackwardOfGeluSumsTheGradientOfTheBiasBeforeIt) {
  const Tensors given = {at::randn({4, 6, 16}), at::randn({24, 16}), at::randn({24})};
  for (const char* name : {"gelu", "gelu_new"}) {
    const nn::Activation activation(name);
    const auto run = [&](const Tensors& in) { return activation.of_linear(nn::Linear(in[1], in[2]), in[0]); };
    const Tensors wanted =
        with_gradients(given, [&](const Tensors& in) { return activation(nn::Linear(in[1], in[2])(in[0])); });
    Tensors half;
    for (const at::Tensor& tensor : given) half.push_back(there(tensor.to(at::kBFloat16)));
    const Tensors found = with_gradients(half, run);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(is_near(found[i].cpu().to(at::kFloat), wanted[i], 2e-2)) << name << " " << i;
    const Tensors exact = with_gradients(there(given), run);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(is_near(exact[i].cpu(), wanted[i], 1e-5)) << i;
  }
}

TEST_F(DeviceLayers, TakeHalfPrecision) {
  nn::LayerNorm norm(24, 1e-5, at::kFloat);
  const nn::Activation activation("silu");
  const nn::Rotary rotary({}, 8);
  const std::function<at::Tensor(const Tensors&)> layers[] = {
      [&](const Tensors& in) {
        norm.weight = in[1];
        norm.bias = in[1];
        return norm(in[0]);
      },
      [&](const Tensors& in) { return activation(in[0], in[0] * 2) + in[1]; },
      [&](const Tensors& in) {
        return rotary(in[0].view({2, 6, 3, 8}), {}).flatten(1) * in[1].repeat(6);
      },
  };
  const Tensors given = {at::randn({12, 24}), at::randn({24})};
  for (const auto& layer : layers) {
    const Tensors exact = with_gradients(given, layer);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      Tensors half;
      for (const at::Tensor& tensor : given) half.push_back(there(tensor.to(type)));
      const Tensors found = with_gradients(half, layer);
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_EQ(found[i].scalar_type(), type);
        EXPECT_TRUE(is_near(found[i].cpu().to(at::kFloat), exact[i], 3e-2)) << i;
      }
    }
  }
}

TEST_F(DeviceLayers, GatedUnitsAreOneLaunchEachWay) {
  for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
    const nn::Activation activation(name);
    expect_like_host({at::randn({7, 33}), at::randn({7, 33})}, 3,
                     [&](const Tensors& in) { return activation(in[0], in[1]); });
  }
}

TEST_F(DeviceLayers, RotaryPositionsAreOneLaunchEachWay) {
  const nn::Rotary rotary({}, 8);
  expect_like_host({at::randn({2, 6, 3, 8})}, 4, [&](const Tensors& in) { return rotary(in[0], {}); });
  const nn::Rotary part({.part = 0.5}, 8);
  expect_like_host({at::randn({2, 6, 3, 8})}, 4, [&](const Tensors& in) { return part(in[0], {}); });
}

// A vocabulary whose rows are no multiple of 64 elements long.
constexpr int64_t kRows = 12, kInputs = 16, kVocabulary = 1031, kPadded = 1088;

TEST_F(DeviceLayers, LinearPadsTheRowsOfALargeVocabulary) {
  const at::Tensor x = there(at::randn({3, 4, kInputs}).to(at::kBFloat16)),
                   w = there(at::randn({kVocabulary, kInputs}).to(at::kBFloat16)),
                   b = there(at::randn({kVocabulary}).to(at::kBFloat16));
  for (const at::Tensor& bias : {b, at::Tensor()}) {
    const at::Tensor y = nn::linear(x, w, bias, nn::Linear::Layout::kOutIn);
    EXPECT_EQ(y.strides(), at::IntArrayRef({4 * kPadded, kPadded, 1}));
    const at::Tensor exact = at::linear(x.cpu().to(at::kFloat), w.cpu().to(at::kFloat),
                                        bias.defined() ? bias.cpu().to(at::kFloat) : bias);
    EXPECT_TRUE(is_near(y.cpu().to(at::kFloat), exact, 1e-2));
    const at::Tensor whole = device::with_padding(y.flatten(0, 1));
    EXPECT_EQ(whole.data_ptr(), y.data_ptr()) << "no copy";
    EXPECT_EQ(whole.narrow(1, kVocabulary, kPadded - kVocabulary).cpu().count_nonzero().item<int64_t>(), 0);
  }
  EXPECT_FALSE(device::gains_by_padding(x.cpu(), kVocabulary));
  EXPECT_FALSE(device::gains_by_padding(x, 1024));
  EXPECT_FALSE(device::gains_by_padding(x.to(at::kFloat), kVocabulary));
}

// Returns loss and gradients of a head. Its logits have more readers if `kept`, so that their memory is not
// reused for the gradient, which then has no padding. `expected`: the gradient of the loss, if it is known.
Tensors loss_of_head(const Tensors& given, const at::Tensor& labels, bool kept,
                     std::optional<double> expected = {}) {
  Tensors inputs;
  for (const at::Tensor& tensor : given) inputs.push_back(tensor.detach().clone().requires_grad_(true));
  at::Tensor logits = nn::linear(inputs[0], inputs[1], inputs[2], nn::Linear::Layout::kOutIn);
  const at::Tensor loss = nn::cross_entropy_sum(logits, labels, -100, expected);
  if (!kept) logits.reset();
  loss.backward();
  Tensors results{loss.detach()};
  for (const at::Tensor& input : inputs) results.push_back(input.grad());
  return results;
}

TEST_F(DeviceLayers, PaddedLogitsHaveTheGradientsOfTheHost) {
  const Tensors given = {at::randn({kRows, kInputs}).to(at::kBFloat16),
                         at::randn({kVocabulary, kInputs}).to(at::kBFloat16),
                         at::randn({kVocabulary}).to(at::kBFloat16)};
  at::Tensor labels = at::randint(kVocabulary, {kRows}, at::kLong);
  labels[3] = -100;
  Tensors exact;
  for (const at::Tensor& tensor : given) exact.push_back(tensor.to(at::kFloat));
  const Tensors wanted = loss_of_head(exact, labels, false);
  for (const auto& [kept, expected] : std::vector<std::pair<bool, std::optional<double>>>{
           {false, std::nullopt}, {true, std::nullopt}, {false, 1.0}, {false, 0.5}}) {
    SCOPED_TRACE(fmt::format("kept {}, expected {}", kept, expected.value_or(0)));
    const Tensors found = loss_of_head(there(given), there(labels), kept, expected);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(is_near(found[i].cpu().to(at::kFloat), wanted[i], 2e-2)) << i;
  }
}

// What lies between rows that no padding made may be anything.
TEST_F(DeviceLayers, PaddingIsNeverReadFromOtherMemory) {
  const at::Tensor large =
      there(at::full({kRows, kPadded}, std::numeric_limits<double>::quiet_NaN(), at::kBFloat16));
  const at::Tensor part = large.narrow(1, 0, kVocabulary);
  part.fill_(1);
  const at::Tensor whole = device::with_padding(part);
  EXPECT_EQ(whole.size(1), kPadded);
  EXPECT_NE(whole.data_ptr(), large.data_ptr());
  EXPECT_EQ(whole.to(at::kFloat).sum().cpu().item<double>(), static_cast<double>(kRows * kVocabulary));
  const at::Tensor own = device::empty_with_padding(kRows, kVocabulary, large.options());
  EXPECT_NE(device::with_padding(own.narrow(0, 1, kRows - 1)).data_ptr(), own.data_ptr()) << "a part of it";
}

TEST_F(DeviceLayers, GroupedHeadsShareKeysInHalfPrecision) {
  nn::AttentionOptions options;
  options.causal = true;
  const Tensors given = {at::randn({2, 5, 6, 8}), at::randn({2, 5, 2, 8}), at::randn({2, 5, 2, 8})};
  const auto run = [&](const Tensors& in) { return nn::self_attention(in[0], in[1], in[2], {}, options); };
  const Tensors exact = with_gradients(given, run);
  Tensors half;
  for (const at::Tensor& tensor : given) half.push_back(there(tensor.to(at::kBFloat16)));
  const Tensors found = with_gradients(half, run);
  for (size_t i = 0; i < exact.size(); ++i)
    EXPECT_TRUE(is_near(found[i].cpu().to(at::kFloat), exact[i], 3e-2)) << i;
}

TEST_F(DeviceLayers, RulesTakeGradientsInHalfPrecision) {
  for (const char* name : {"adamw", "sgd"}) {
    const auto rule = optim::rule(name);
    const optim::Hyper options =
        optim::complete(*rule, std::string(name) == "sgd" ? optim::Hyper{{"momentum", 0.9}} : optim::Hyper());
    const at::Tensor value = at::randn({300}), gradient = at::randn({300}).to(at::kBFloat16);
    const auto updated = [&](const at::Tensor& own, const at::Tensor& given) {
      optim::States states;
      optim::UpdateBatch batch{options, 1, 0.5, {}, {}};
      batch.slices.push_back({.value = own, .gradient = given, .state = &states});
      device::Reading reading;
      rule->update(1, batch, reading);
      reading.read();
      return own;
    };
    const at::Tensor wanted = updated(value.clone(), gradient.to(at::kFloat));
    EXPECT_TRUE(at::equal(updated(value.clone(), gradient.clone()), wanted)) << name;
    expect_equal(updated(there(value), there(gradient)), wanted);
  }
}

TEST_F(DeviceLayers, AReadingThatHasBegunWaitsForNoLaterWork) {
  device::Reading reading;
  double sum = 0;
  const at::Tensor number = there(at::full({}, 3.0, at::kDouble));
  reading.add(number, &sum);
  sim::reset_counters();
  reading.begin();
  number.fill_(5);
  EXPECT_EQ(sim::counters().host_waits, 0);
  reading.read();
  EXPECT_EQ(sim::counters().host_waits, 1);
  EXPECT_EQ(sum, 3);
}

}  // namespace

}  // namespace weft::test
