#include "cuda/update_rules.hpp"

#include <memory>

#include "cuda/gradient_norm.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

using namespace kernels;
using cuda::AdamRange;
using cuda::Chunk;
using cuda::SgdRange;

const std::vector<int64_t> kLengths = {1, 3, 4, 1000, 8192, 0, 8205};
constexpr double kLr = 0.01, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kDecay = 0.1, kFactor = 0.25;

// The memory of all ranges. Values, states, gradients and copies begin at different places in their sixteen
// bytes.
template <class G, class C>
struct Ranges {
  explicit Ranges(int64_t shift) {
    for (size_t r = 0; r < kLengths.size(); ++r) {
      const int64_t n = kLengths[r];
      const auto seed = static_cast<uint32_t>(10 * r);
      const int64_t at = r % 2 == 0 ? shift : 0;
      std::vector<float> squares = normal(n, seed + 3);
      for (float& square : squares) square *= square;
      values.push_back(std::make_unique<Buffer<float>>(normal(n, seed), at));
      averages.push_back(std::make_unique<Buffer<float>>(normal(n, seed + 1), 2 * at));
      this->squares.push_back(std::make_unique<Buffer<float>>(squares));
      gradients.push_back(std::make_unique<Buffer<G>>(normal(n, seed + 2), 3 * at));
      copies.push_back(std::make_unique<Buffer<C>>(n, at));
    }
  }
  std::vector<std::unique_ptr<Buffer<float>>> values, averages, squares;
  std::vector<std::unique_ptr<Buffer<G>>> gradients;
  std::vector<std::unique_ptr<Buffer<C>>> copies;
  Buffer<Chunk> chunks{cuda::chunks_of(kLengths)};
};

// A decision and the numbers of a step. Parameter 1 got no gradient.
struct Step {
  Step(const StepOptions& options, std::vector<int64_t> before, int32_t skipped)
      : decision(std::vector<Decision>{{1, static_cast<float>(kFactor), skipped}}),
        touched(std::vector<double>{2, 0}),
        steps(before),
        numbers(2) {
    cuda::count_steps({2, touched.data(), steps.data(), options, decision.data(), numbers.data()}, nullptr);
  }
  Buffer<Decision> decision;
  Buffer<double> touched;
  Buffer<int64_t> steps;
  Buffer<StepNumbers> numbers;
};

// Ranges 1 and 3 belong to parameter 1.
int32_t parameter_of(size_t range) {
  return range == 1 || range == 3 ? 1 : 0;
}

template <class G, class C>
Results results_of(Ranges<G, C>& ranges, Step& step) {
  Results results = {step.steps.values()};
  for (size_t r = 0; r < kLengths.size(); ++r) {
    results.push_back(ranges.values[r]->values());
    results.push_back(ranges.averages[r]->values());
    results.push_back(ranges.squares[r]->values());
    results.push_back(ranges.copies[r]->values());
  }
  return results;
}

template <class G, class C>
Results run_adam(bool decoupled, int64_t shift, int32_t skipped) {
  Ranges<G, C> ranges(shift);
  Step step({kLr, kBeta1, kBeta2, true}, {4, 7}, skipped);
  std::vector<AdamRange<G, C>> table;
  for (size_t r = 0; r < kLengths.size(); ++r)
    table.push_back({ranges.values[r]->data(), ranges.averages[r]->data(), ranges.squares[r]->data(),
                     ranges.gradients[r]->data(), ranges.copies[r]->data(), parameter_of(r)});
  Buffer<AdamRange<G, C>> on_device(table);
  cuda::adam<G, C>({on_device.data(), ranges.chunks.data(), ranges.chunks.size()},
                   adam_factors(kLr, kBeta1, kBeta2, kEps, kDecay, decoupled), step.numbers.data(),
                   step.decision.data(), nullptr);
  return results_of(ranges, step);
}

template <class G, class C>
void expect_adam(bool decoupled, int64_t shift) {
  const Results results = in_every_order([&] { return run_adam<G, C>(decoupled, shift, 0); });
  EXPECT_EQ(results[0], (std::vector<double>{5, 7})) << "a parameter without a gradient makes no step";
  Ranges<G, C> before(shift);
  const double correction1 = 1 - std::pow(kBeta1, 5), correction2 = 1 - std::pow(kBeta2, 5);
  const AdamFactors factors = adam_factors(kLr, kBeta1, kBeta2, kEps, kDecay, decoupled);
  const StepNumbers numbers = step_numbers({kLr, kBeta1, kBeta2, true}, 5);
  for (size_t r = 0; r < kLengths.size(); ++r) {
    SCOPED_TRACE(r);
    std::vector<double> values, averages, squares, loop, copies;
    for (int64_t i = 0; i < kLengths[r]; ++i) {
      float w = (*before.values[r])[i], m = (*before.averages[r])[i], v = (*before.squares[r])[i];
      double x = exact(w), average = exact(m), square = exact(v),
             g = exact((*before.gradients[r])[i]) * kFactor;
      if (parameter_of(r) == 0) {
        if (decoupled)
          x -= kLr * kDecay * x;
        else
          g += kDecay * x;
        average = kBeta1 * average + (1 - kBeta1) * g;
        square = kBeta2 * square + (1 - kBeta2) * g * g;
        x -= kLr * (average / correction1) / (std::sqrt(square / correction2) + kEps);
        adam_element(factors, numbers,
                     static_cast<float>((*before.gradients[r])[i]) * static_cast<float>(kFactor), w, m, v);
        copies.push_back(exact(static_cast<C>(w)));
      }
      values.push_back(x);
      averages.push_back(average);
      squares.push_back(square);
      loop.push_back(exact(w));
    }
    expect_near(results[4 * r + 1], values, 1e-6, 1e-6, "value");
    expect_near(results[4 * r + 2], averages, 1e-6, 1e-6, "average");
    expect_near(results[4 * r + 3], squares, 1e-6, 1e-6, "square");
    expect_same({results[4 * r + 1]}, {loop}, "a loop over the formula");
    if (parameter_of(r) == 0) expect_same({results[4 * r + 4]}, {copies}, "the copy");
  }
}

TEST(AdamOnHost, UpdatesRangesOfOneLaunch) {
  for (const int64_t shift : {0, 1}) {
    expect_adam<float, c10::BFloat16>(true, shift);
    expect_adam<float, c10::Half>(false, shift);
    expect_adam<c10::BFloat16, c10::BFloat16>(true, shift);
    expect_adam<c10::Half, c10::Half>(false, shift);
  }
}

TEST(AdamOnHost, LeavesEverythingAloneAfterAnOverflow) {
  const Results results = run_adam<float, c10::BFloat16>(true, 0, 1);
  EXPECT_EQ(results[0], (std::vector<double>{4, 7}));
  Ranges<float, c10::BFloat16> before(0);
  for (size_t r = 0; r < kLengths.size(); ++r) {
    EXPECT_EQ(results[4 * r + 1], before.values[r]->values());
    EXPECT_EQ(results[4 * r + 2], before.averages[r]->values());
    EXPECT_EQ(results[4 * r + 3], before.squares[r]->values());
  }
}

// Without momentum there is no memory for it.
template <class G, class C>
Results run_sgd(const SgdFactors& factors, int64_t steps_before) {
  Ranges<G, C> ranges(1);
  Step step({kLr, 0, 0, false}, {steps_before, 7}, 0);
  std::vector<SgdRange<G, C>> table;
  for (size_t r = 0; r < kLengths.size(); ++r)
    table.push_back({ranges.values[r]->data(), factors.momentum != 0 ? ranges.averages[r]->data() : nullptr,
                     ranges.gradients[r]->data(), r == 3 ? nullptr : ranges.copies[r]->data(),
                     parameter_of(r)});
  Buffer<SgdRange<G, C>> on_device(table);
  cuda::sgd<G, C>({on_device.data(), ranges.chunks.data(), ranges.chunks.size()}, factors,
                  step.numbers.data(), step.decision.data(), nullptr);
  return results_of(ranges, step);
}

template <class G, class C>
void expect_sgd(double momentum, double dampening, bool nesterov, int64_t steps_before) {
  const SgdFactors factors = {static_cast<float>(momentum), static_cast<float>(1 - dampening),
                              static_cast<float>(kDecay), nesterov};
  const Results results = in_every_order([&] { return run_sgd<G, C>(factors, steps_before); });
  Ranges<G, C> before(1);
  for (size_t r = 0; r < kLengths.size(); ++r) {
    std::vector<double> values, momenta;
    for (int64_t i = 0; i < kLengths[r]; ++i) {
      double x = exact((*before.values[r])[i]), m = exact((*before.averages[r])[i]);
      double g = exact((*before.gradients[r])[i]) * kFactor + kDecay * x;
      if (parameter_of(r) == 0) {
        if (momentum != 0) {
          m = steps_before == 0 ? g : momentum * m + (1 - dampening) * g;
          g = nesterov ? g + momentum * m : m;
        }
        x -= kLr * g;
      }
      values.push_back(x);
      momenta.push_back(m);
    }
    expect_near(results[4 * r + 1], values, 1e-6, 1e-6, "value");
    expect_near(results[4 * r + 2], momenta, 1e-6, 1e-6, "momentum");
  }
}

TEST(SgdOnHost, FollowsItsOptions) {
  expect_sgd<float, c10::BFloat16>(0, 0, false, 3);
  expect_sgd<c10::BFloat16, c10::BFloat16>(0.9, 0, false, 0);
  expect_sgd<c10::Half, c10::Half>(0.9, 0.5, false, 3);
  expect_sgd<float, c10::Half>(0.9, 0, true, 3);
}

struct Decided {
  Decision decision;
  LossScale scale;
};
Decided decide_with(double part, double max_norm, double clip, bool scaled, NormType type = NormType::kTwo) {
  Buffer<double> norm_part(std::vector<double>{part});
  Buffer<LossScale> scale(std::vector<LossScale>{{8, 2, 1}});
  Buffer<Decision> decision(1);
  cuda::decide_step({type,
                     norm_part.data(),
                     max_norm,
                     clip,
                     scaled ? scale.data() : nullptr,
                     {1, 64, 2, 0.5, 3, 2},
                     decision.data()},
                    nullptr);
  return {decision[0], scale[0]};
}

TEST(StepDecisionOnHost, UnscalesClipsAndSkips) {
  Decided found = decide_with(16 * 64, 2, 0.5, true);  // a norm of 32 at scale 8
  EXPECT_DOUBLE_EQ(found.decision.norm, 4);
  EXPECT_NEAR(found.decision.factor, 0.5 * (2 / (4 + 1e-6)) / 8, 1e-9);
  EXPECT_EQ(found.decision.skipped, 0);
  EXPECT_EQ(found.scale.scale, 16) << "the third update without overflow doubles the scale";
  EXPECT_EQ(found.scale.growth_steps, 0);
  EXPECT_EQ(found.scale.overflows, 0);

  found = decide_with(INFINITY, 2, 1, true);
  EXPECT_EQ(found.decision.skipped, 1);
  EXPECT_EQ(found.scale.scale, 4) << "the second overflow halves the scale";
  EXPECT_EQ(found.scale.growth_steps, 0);
  EXPECT_EQ(found.scale.overflows, 2);
  EXPECT_EQ(decide_with(NAN, 0, 1, true).decision.skipped, 1);
  EXPECT_EQ(decide_with(NAN, 0, 1, false).decision.skipped, 0) << "as without loss scaling on the CPU";

  EXPECT_EQ(decide_with(9, 5, 1, false).decision.factor, 1) << "below the limit nothing is clipped";
  EXPECT_DOUBLE_EQ(decide_with(9, 0, 1, false, NormType::kInfinity).decision.norm, 9);
  EXPECT_THROW(cuda::decide_step({NormType::kTwo, nullptr, 1, 1, nullptr, {}, nullptr}, nullptr),
               std::invalid_argument);
}

template <class T>
double norm_of(NormType type, const std::vector<std::vector<float>>& gradients, int64_t shift) {
  std::vector<std::unique_ptr<Buffer<T>>> memory;
  std::vector<const T*> ranges;
  std::vector<int64_t> lengths;
  for (const std::vector<float>& gradient : gradients) {
    memory.push_back(std::make_unique<Buffer<T>>(gradient, shift));
    ranges.push_back(memory.back()->data());
    lengths.push_back(memory.back()->size());
  }
  Buffer<const T*> table(ranges);
  Buffer<Chunk> chunks(cuda::chunks_of(lengths));
  Buffer<double> parts(chunks.size()), total(1);
  cuda::norm_parts(type, table.data(), chunks.data(), chunks.size(), parts.data(), nullptr);
  cuda::norm_total(type, parts.data(), parts.size(), total.data(), nullptr);
  return total[0];
}

TEST(GradientNormOnHost, AddsUpWhatManyRangesHold) {
  std::vector<std::vector<float>> gradients = {
      normal(1, 1), normal(8193, 2), normal(777, 3), {}, normal(9000, 4)};
  for_types([&]<class T>(T) {
    double squares = 0, sum = 0, largest = 0;
    for (const std::vector<float>& gradient : gradients)
      for (const double x : rounded<T>(gradient)) {
        squares += x * x;
        sum += std::abs(x);
        largest = std::max(largest, std::abs(x));
      }
    for (const int64_t shift : {0, 1}) {
      const auto total = [&](NormType type) {
        return in_every_order([&] { return Results{{norm_of<T>(type, gradients, shift)}}; })[0][0];
      };
      EXPECT_NEAR(total(NormType::kTwo), squares, 1e-13 * squares);
      EXPECT_NEAR(total(NormType::kOne), sum, 1e-13 * sum);
      EXPECT_EQ(total(NormType::kInfinity), largest);
    }
  });
}

TEST(GradientNormOnHost, IsInfiniteIfAnElementIsNotFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (const size_t at : {size_t{0}, size_t{5000}, size_t{8200}}) {
      std::vector<std::vector<float>> gradients = {normal(100, 1), normal(8201, 2)};
      gradients[1][at] = bad;
      for_types([&]<class T>(T) {
        for (const NormType type : {NormType::kOne, NormType::kTwo, NormType::kInfinity})
          EXPECT_EQ(norm_of<T>(type, gradients, 0), INFINITY) << bad << " at " << at;
      });
    }
  EXPECT_EQ(norm_of<float>(NormType::kTwo, {{3e38f, 3e38f}}, 0), 2 * std::pow(exact(3e38f), 2))
      << "squares of large numbers are no overflow";
}

}  // namespace
}  // namespace weft::testing
