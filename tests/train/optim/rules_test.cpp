#include "optim/rules.hpp"
#include "device/reading.hpp"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <limits>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::optim {
namespace {

using at::Tensor;
using test::is_near;

TEST(Rules, AreRefusedByUnknownNameWithTheNearest) {
  EXPECT_ERROR(rule("adanw"), WEFT_NOT_FOUND, "\"adanw\"", "did you mean \"adamw\"",
               "sgd, adam, adamw, hybrid_adam");
  for (const std::string& name : rule_names()) EXPECT_EQ(rule(name)->name(), name);
}

TEST(Rules, RefuseAnUnknownOptionWithTheNearest) {
  EXPECT_ERROR(complete(*rule("adamw"), {{"weight_decy", 0.1}}), WEFT_INVALID_ARGUMENT, "adamw",
               "\"weight_decy\"", "did you mean \"weight_decay\"");
  EXPECT_ERROR(complete(*rule("adam"), {{"momentum", 0.9}}), WEFT_INVALID_ARGUMENT, "momentum",
               "beta1, beta2, eps, lr");
  EXPECT_ERROR(complete(*rule("sgd"), {{"beta1", 0.9}}), WEFT_INVALID_ARGUMENT, "sgd", "beta1");
}

TEST(Rules, RefuseValuesThatPyTorchRefuses) {
  for (const std::string& name : rule_names()) {
    EXPECT_ERROR(complete(*rule(name), {{"lr", -0.1}}), WEFT_INVALID_ARGUMENT, name, "lr is -0.1",
                 "at least 0");
    EXPECT_ERROR(complete(*rule(name), {{"lr", 1}, {"weight_decay", -1}}), WEFT_INVALID_ARGUMENT,
                 "weight_decay is -1");
  }
  for (const char* name : {"adam", "adamw"}) {
    EXPECT_ERROR(complete(*rule(name), {{"beta1", 1}}), WEFT_INVALID_ARGUMENT, "beta1 is 1", "below 1");
    EXPECT_ERROR(complete(*rule(name), {{"beta2", -0.5}}), WEFT_INVALID_ARGUMENT, "beta2 is -0.5");
    EXPECT_ERROR(complete(*rule(name), {{"eps", -1e-8}}), WEFT_INVALID_ARGUMENT, "eps is -1e-08");
  }
  EXPECT_ERROR(complete(*rule("sgd"), {{"momentum", -1}}), WEFT_INVALID_ARGUMENT, "momentum is -1");
  EXPECT_ERROR(complete(*rule("sgd"), {{"nesterov", 1}}), WEFT_INVALID_ARGUMENT, "nesterov", "momentum is 0");
  EXPECT_ERROR(complete(*rule("sgd"), {{"nesterov", 1}, {"momentum", 0.9}, {"dampening", 0.1}}),
               WEFT_INVALID_ARGUMENT, "dampening 0.1");
  EXPECT_ERROR(complete(*rule("sgd"), {{"nesterov", 0.5}, {"momentum", 0.9}}), WEFT_INVALID_ARGUMENT,
               "nesterov is 0.5");
}

// Each option of each rule, betas among them.
TEST(Rules, RefuseOptionsThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const std::string& name : rule_names())
    for (const auto& [option, value] : rule(name)->defaults())
      for (const auto& [wrong, text] : {std::pair(std::numeric_limits<double>::quiet_NaN(), "nan"),
                                        {kInfinity, "inf"},
                                        {-kInfinity, "-inf"}}) {
        Hyper options = {{"lr", 0.1}};
        options[option] = wrong;
        EXPECT_ERROR(complete(*rule(name), options), WEFT_INVALID_ARGUMENT, name, option + " is " + text,
                     "finite number");
      }
}

TEST(Rules, FillInPyTorchsDefaults) {
  const Hyper adamw = {{"lr", 0.1}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}};
  EXPECT_EQ(complete(*rule("adamw"), {{"lr", 0.1}}), adamw);
  EXPECT_EQ(complete(*rule("adam"), {}).at("weight_decay"), 0);
  const Hyper sgd = {{"lr", 1e-3}, {"momentum", 0.9}, {"dampening", 0}, {"weight_decay", 0}, {"nesterov", 1}};
  EXPECT_EQ(complete(*rule("sgd"), {{"momentum", 0.9}, {"nesterov", 1}}), sgd);
}

// Two copies of a parameter, one for libtorch's optimizer and one for a rule, and the gradients of some
// steps.
struct Problem {
  explicit Problem(at::ScalarType dtype, int64_t size = 1003) {
    at::manual_seed(1);
    expected = at::randn({size}, dtype).requires_grad_();
    value = expected.detach().clone();
    for (int i = 0; i < 5; ++i) gradients.push_back(at::randn({size}, dtype) * (i + 1));
  }
  Tensor expected, value;
  std::vector<Tensor> gradients;
  std::map<std::string, Tensor> state;
};

Slice slice_of(const Tensor& value, const Tensor& gradient, States* state) {
  Slice slice;
  slice.value = value;
  slice.gradient = gradient;
  slice.state = state;
  return slice;
}

// Runs an update of a rule without sums.
void update(const Rule& rule, std::vector<Slice> slices, const Hyper& options, int64_t step, double factor) {
  const at::NoGradGuard no_grad;
  UpdateBatch batch{options, step, factor, std::move(slices), {}};
  device::Reading reading;
  rule.update(1, batch, reading);
  reading.read();
}

using MakeOracle = std::function<std::unique_ptr<torch::optim::Optimizer>(const Tensor&)>;

void expect_values_of_libtorch(const std::string& name, const Hyper& given, const MakeOracle& make_oracle) {
  const auto under_test = rule(name);
  const Hyper options = complete(*under_test, given);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const double factor : {1.0, 0.37}) {
      Problem problem(dtype);
      const auto oracle = make_oracle(problem.expected);
      for (size_t i = 0; i < problem.gradients.size(); ++i) {
        problem.expected.mutable_grad() = problem.gradients[i] * factor;
        oracle->step();
        update(*under_test, {slice_of(problem.value, problem.gradients[i].clone(), &problem.state)}, options,
               static_cast<int64_t>(i) + 1, factor);
        EXPECT_TRUE(is_near(problem.value, problem.expected, dtype == at::kFloat ? 2e-7 : 2e-15))
            << name << " " << toString(dtype) << " step " << i + 1 << " factor " << factor;
      }
    }
  }
}

TEST(Rules, RefuseOptionsOfColossalAiThatWouldHaveNoEffect) {
  for (const char* name : {"hybrid_adam", "cpu_adam"})
    EXPECT_ERROR(complete(*rule(name), {{"nvme_offload_fraction", 0.5}}), WEFT_UNIMPLEMENTED, name,
                 "nvme_offload_fraction is 0.5", "only be 0");
  EXPECT_ERROR(complete(*rule("fused_adam"), {{"amsgrad", 1}}), WEFT_UNIMPLEMENTED, "amsgrad is 1");
  EXPECT_ERROR(complete(*rule("fused_adam"), {{"set_grad_none", 0}}), WEFT_UNIMPLEMENTED,
               "set_grad_none is 0");
}

TEST(Rules, RefuseValuesThatTheirPapersExclude) {
  EXPECT_ERROR(complete(*rule("lars"), {{"eeta", 0}}), WEFT_INVALID_ARGUMENT, "eeta is 0", "above 0");
  EXPECT_ERROR(complete(*rule("lamb"), {{"beta2", 1}}), WEFT_INVALID_ARGUMENT, "lamb", "beta2 is 1");
  EXPECT_ERROR(complete(*rule("lamb"), {{"adam", 2}}), WEFT_INVALID_ARGUMENT, "adam is 2", "0 or 1");
  EXPECT_ERROR(complete(*rule("adafactor"), {{"decay_rate", 0.8}}), WEFT_INVALID_ARGUMENT,
               "decay_rate is 0.8");
  EXPECT_ERROR(complete(*rule("adafactor"), {{"warmup_init", 1}, {"relative_step", 0}}),
               WEFT_INVALID_ARGUMENT, "warmup_init needs relative_step");
  EXPECT_ERROR(complete(*rule("came"), {}), WEFT_INVALID_ARGUMENT, "lr must");
  EXPECT_ERROR(complete(*rule("came"), {{"lr", 1}, {"clip_threshold", 0}}), WEFT_INVALID_ARGUMENT,
               "clip_threshold is 0", "positive");
}

TEST(HybridAdam, LeavesTheBiasWhereItIsIfToldTo) {
  Problem problem(at::kDouble);
  update(*rule("hybrid_adam"), {slice_of(problem.value, problem.gradients[0], &problem.state)},
         complete(*rule("hybrid_adam"), {{"lr", 0.1}, {"bias_correction", 0}}), 1, 1.0);
  const Tensor &g = problem.gradients[0], moved = problem.expected.detach() - problem.value;
  EXPECT_TRUE(is_near(moved, 0.1 * (0.1 * g) / ((0.001 * g * g).sqrt() + 1e-8), 1e-12));
}

TEST(Sgd, EqualsLibtorchs) {
  const auto with = [](auto change) {
    return [change](const Tensor& parameter) {
      torch::optim::SGDOptions options(0.1);
      change(options);
      return std::make_unique<torch::optim::SGD>(std::vector<Tensor>{parameter}, options);
    };
  };
  expect_values_of_libtorch("sgd", {{"lr", 0.1}}, with([](auto&) {}));
  expect_values_of_libtorch("sgd", {{"lr", 0.1}, {"weight_decay", 0.2}},
                            with([](auto& o) { o.weight_decay(0.2); }));
  expect_values_of_libtorch("sgd", {{"lr", 0.1}, {"momentum", 0.9}}, with([](auto& o) { o.momentum(0.9); }));
  expect_values_of_libtorch("sgd",
                            {{"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.3}, {"weight_decay", 0.2}},
                            with([](auto& o) { o.momentum(0.9).dampening(0.3).weight_decay(0.2); }));
  expect_values_of_libtorch("sgd", {{"lr", 0.1}, {"momentum", 0.9}, {"nesterov", 1}, {"weight_decay", 0.2}},
                            with([](auto& o) { o.momentum(0.9).nesterov(true).weight_decay(0.2); }));
}

TEST(Sgd, BeginsTheMomentumOfALateSliceWithItsGradient) {
  Problem problem(at::kFloat);
  std::vector<Slice> slices = {slice_of(problem.value, problem.gradients[0], &problem.state)};
  update(*rule("sgd"), slices, complete(*rule("sgd"), {{"momentum", 0.9}, {"dampening", 0.5}}), 7, 1.0);
  EXPECT_TRUE(problem.state.at("momentum_buffer").equal(problem.gradients[0]));
}

template <class Oracle, class OracleOptions>
void expect_adam_of_libtorch(const char* name) {
  for (const double decay : {0.0, 0.2}) {
    expect_values_of_libtorch(
        name, {{"lr", 0.1}, {"beta1", 0.8}, {"beta2", 0.95}, {"eps", 1e-6}, {"weight_decay", decay}},
        [&](const Tensor& parameter) {
          return std::make_unique<Oracle>(
              std::vector<Tensor>{parameter},
              OracleOptions(0.1).betas({0.8, 0.95}).eps(1e-6).weight_decay(decay));
        });
  }
}

TEST(Adam, EqualsLibtorchs) {
  expect_adam_of_libtorch<torch::optim::Adam, torch::optim::AdamOptions>("adam");
}

TEST(AdamW, EqualsLibtorchs) {
  expect_adam_of_libtorch<torch::optim::AdamW, torch::optim::AdamWOptions>("adamw");
}

// Every rule with every kind of state.
const std::vector<std::pair<std::string, Hyper>> kRules = {
    {"sgd", {{"weight_decay", 0.1}}},
    {"sgd", {{"momentum", 0.9}, {"weight_decay", 0.1}}},
    {"adam", {{"weight_decay", 0.1}}},
    {"adamw", {}},
    {"hybrid_adam", {}},
    {"fused_adam", {{"adamw_mode", 0}, {"weight_decay", 0.1}}},
    {"lion", {{"lr", 0.1}, {"weight_decay", 0.1}}}};

TEST(Rules, GiveTheSameForASliceAndForItsParts) {
  for (const auto& [name, given] : kRules) {
    const Hyper options = complete(*rule(name), given);
    // Kernels compute whole vectors and then single elements, which may round differently. A cut between
    // whole vectors changes nothing.
    for (const auto& [cut, tolerance] : {std::pair<int64_t, double>{512, 0}, {301, 1e-7}}) {
      Problem whole(at::kFloat), parts(at::kFloat);
      std::map<std::string, Tensor> left_state, right_state;
      for (int64_t i = 0; i < 4; ++i) {
        std::vector<Slice> one = {slice_of(whole.value, whole.gradients[i], &whole.state)};
        update(*rule(name), one, options, i + 1, 0.5);
        const int64_t rest = parts.value.numel() - cut;
        std::vector<Slice> two = {
            slice_of(parts.value.narrow(0, 0, cut), parts.gradients[i].narrow(0, 0, cut), &left_state),
            slice_of(parts.value.narrow(0, cut, rest), parts.gradients[i].narrow(0, cut, rest),
                     &right_state)};
        update(*rule(name), two, options, i + 1, 0.5);
      }
      EXPECT_TRUE(is_near(parts.value, whole.value, tolerance)) << name << " cut at " << cut;
      for (const auto& [state_name, state] : whole.state) {
        EXPECT_TRUE(
            is_near(at::cat({left_state.at(state_name), right_state.at(state_name)}), state, tolerance))
            << name << " " << state_name << " cut at " << cut;
      }
    }
  }
}

TEST(Rules, TakeSlicesOfBothTypesAndNewOnesAmongOld) {
  for (const auto& [name, given] : kRules) {
    const Hyper options = complete(*rule(name), given);
    Problem a(at::kFloat, 10), b(at::kDouble, 20), late(at::kFloat, 30), empty(at::kFloat, 0);
    Problem a_alone(at::kFloat, 10), b_alone(at::kDouble, 20), late_alone(at::kFloat, 30);
    const auto slice = [](Problem& problem, int64_t i) {
      return slice_of(problem.value, problem.gradients[i].clone(), &problem.state);
    };
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<Slice> together = {slice(a, i), slice(empty, i), slice(b, i)};
      if (i > 0) together.push_back(slice(late, i));
      update(*rule(name), together, options, i + 1, 0.3);
      for (Problem* problem : {&a_alone, &b_alone, &late_alone}) {
        if (problem == &late_alone && i == 0) continue;
        std::vector<Slice> alone = {slice(*problem, i)};
        update(*rule(name), alone, options, i + 1, 0.3);
      }
    }
    EXPECT_TRUE(a.value.equal(a_alone.value)) << name;
    EXPECT_TRUE(b.value.equal(b_alone.value)) << name;
    EXPECT_TRUE(late.value.equal(late_alone.value)) << name;
  }
}

TEST(Rules, LeaveGradientsAloneWithoutAFactorAndScaleThemInPlaceWithOne) {
  for (const auto& [name, given] : kRules) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      Problem problem(dtype);
      const Tensor gradient = problem.gradients[0].clone();
      std::vector<Slice> slices = {slice_of(problem.value, gradient, &problem.state)};
      update(*rule(name), slices, complete(*rule(name), given), 1, 1.0);
      EXPECT_TRUE(gradient.equal(problem.gradients[0])) << name;
      update(*rule(name), slices, complete(*rule(name), given), 2, 0.1);
      EXPECT_TRUE(is_near(gradient, problem.gradients[0] * 0.1, dtype == at::kFloat ? 2e-7 : 2e-16)) << name;
    }
  }
}

TEST(Rules, NameTheirStateAsPyTorchDoes) {
  const auto names = [](const char* name, const Hyper& given) {
    Problem problem(at::kFloat);
    std::vector<Slice> slices = {slice_of(problem.value, problem.gradients[0], &problem.state)};
    update(*rule(name), slices, complete(*rule(name), given), 1, 1.0);
    std::vector<std::string> found;
    for (const auto& state : problem.state) found.push_back(state.first);
    return found;
  };
  EXPECT_EQ(names("sgd", {}), std::vector<std::string>{});
  EXPECT_EQ(names("sgd", {{"momentum", 0.5}}), std::vector<std::string>{"momentum_buffer"});
  EXPECT_EQ(names("adam", {}), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names("adamw", {}), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
}

TEST(Rules, RefuseSlicesThatWouldBeReadBeyondTheirEnd) {
  for (const auto& entry : kRules) {
    const std::string& name = entry.first;
    const Hyper options = complete(*rule(name), entry.second);
    const auto run = [&](const Tensor& value, const Tensor& gradient,
                         std::map<std::string, Tensor> state = {}) {
      std::vector<Slice> slices = {slice_of(value, gradient, &state)};
      update(*rule(name), slices, options, 1, 1.0);
    };
    const Tensor value = at::zeros({4});
    EXPECT_ERROR(run(value, at::zeros({3})), WEFT_INTERNAL, name, "gradient of 3 elements");
    EXPECT_ERROR(run(value, at::zeros({4}, at::kDouble)), WEFT_INTERNAL, "gradient", "Double");
    EXPECT_ERROR(run(value, at::zeros({8}).slice(0, 0, 8, 2)), WEFT_INTERNAL, "gradient");
    EXPECT_ERROR(run(value, {}), WEFT_INTERNAL, "gradient", "no tensor");
    EXPECT_ERROR(run(at::zeros({4}, at::kBFloat16), value), WEFT_INTERNAL, "value", "BFloat16");
  }
  std::map<std::string, Tensor> state = {{"exp_avg", at::zeros({3})}};
  std::vector<Slice> slices = {slice_of(at::zeros({4}), at::zeros({4}), &state)};
  EXPECT_ERROR(update(*rule("adam"), slices, complete(*rule("adam"), {}), 1, 1.0), WEFT_INTERNAL,
               "exp_avg of 3");
}

}  // namespace
}  // namespace weft::optim
