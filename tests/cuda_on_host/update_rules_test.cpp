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

// Who knows the factor of the gradients.
enum class Knows { kHost, kDevice, kDeviceSkips };

// The factor: in the device's memory, if the device decides.
struct Scaled {
  explicit Scaled(Knows who)
      : decision(std::vector<Decision>{{1, kFactor, who == Knows::kDeviceSkips ? 1.0 : 0.0}}),
        scaling{who == Knows::kHost ? kFactor : 100, who == Knows::kHost ? nullptr : decision.data()} {}
  Buffer<Decision> decision;
  Scaling scaling;
};

template <class G, class C>
Results results_of(Ranges<G, C>& ranges) {
  Results results;
  for (size_t r = 0; r < kLengths.size(); ++r) {
    results.push_back(ranges.values[r]->values());
    results.push_back(ranges.averages[r]->values());
    results.push_back(ranges.squares[r]->values());
    results.push_back(ranges.copies[r]->values());
  }
  return results;
}

template <class G, class C>
Results run_adam(bool decoupled, int64_t shift, Knows who) {
  Ranges<G, C> ranges(shift);
  Scaled scaled(who);
  std::vector<AdamRange<G, C>> table;
  for (size_t r = 0; r < kLengths.size(); ++r)
    table.push_back({ranges.values[r]->data(), ranges.averages[r]->data(), ranges.squares[r]->data(),
                     ranges.gradients[r]->data(), ranges.copies[r]->data()});
  Buffer<AdamRange<G, C>> on_device(table);
  cuda::adam<G, C>({on_device.data(), ranges.chunks.data(), ranges.chunks.size()},
                   adam_factors(kLr, kBeta1, kBeta2, kEps, kDecay, decoupled),
                   step_numbers({kLr, kBeta1, kBeta2, true}, 5), scaled.scaling, nullptr);
  return results_of(ranges);
}

template <class G, class C>
void expect_adam(bool decoupled, int64_t shift) {
  const Results results = in_every_order([&] { return run_adam<G, C>(decoupled, shift, Knows::kDevice); });
  expect_same(run_adam<G, C>(decoupled, shift, Knows::kHost), results, "a factor that the host knows");
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
      values.push_back(x);
      averages.push_back(average);
      squares.push_back(square);
      loop.push_back(exact(w));
    }
    expect_near(results[4 * r], values, 1e-6, 1e-6, "value");
    expect_near(results[4 * r + 1], averages, 1e-6, 1e-6, "average");
    expect_near(results[4 * r + 2], squares, 1e-6, 1e-6, "square");
    expect_same({results[4 * r]}, {loop}, "a loop over the formula");
    expect_same({results[4 * r + 3]}, {copies}, "the copy");
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
  const Results results = run_adam<float, c10::BFloat16>(true, 0, Knows::kDeviceSkips);
  Ranges<float, c10::BFloat16> before(0);
  for (size_t r = 0; r < kLengths.size(); ++r) {
    EXPECT_EQ(results[4 * r], before.values[r]->values());
    EXPECT_EQ(results[4 * r + 1], before.averages[r]->values());
    EXPECT_EQ(results[4 * r + 2], before.squares[r]->values());
  }
}

// Without momentum there is no memory for it.
template <class G, class C>
Results run_sgd(const SgdFactors& factors, int64_t steps_before) {
  Ranges<G, C> ranges(1);
  Scaled scaled(Knows::kDevice);
  std::vector<SgdRange<G, C>> table;
  for (size_t r = 0; r < kLengths.size(); ++r)
    table.push_back({ranges.values[r]->data(), factors.momentum != 0 ? ranges.averages[r]->data() : nullptr,
                     ranges.gradients[r]->data(), r == 3 ? nullptr : ranges.copies[r]->data()});
  Buffer<SgdRange<G, C>> on_device(table);
  cuda::sgd<G, C>({on_device.data(), ranges.chunks.data(), ranges.chunks.size()}, factors,
                  step_numbers({kLr, 0, 0, false}, steps_before + 1), scaled.scaling, nullptr);
  return results_of(ranges);
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
      if (momentum != 0) {
        m = steps_before == 0 ? g : momentum * m + (1 - dampening) * g;
        g = nesterov ? g + momentum * m : m;
      }
      x -= kLr * g;
      values.push_back(x);
      momenta.push_back(m);
    }
    expect_near(results[4 * r], values, 1e-6, 1e-6, "value");
    expect_near(results[4 * r + 1], momenta, 1e-6, 1e-6, "momentum");
  }
}

TEST(SgdOnHost, FollowsItsOptions) {
  expect_sgd<float, c10::BFloat16>(0, 0, false, 3);
  expect_sgd<c10::BFloat16, c10::BFloat16>(0.9, 0, false, 0);
  expect_sgd<c10::Half, c10::Half>(0.9, 0.5, false, 3);
  expect_sgd<float, c10::Half>(0.9, 0, true, 3);
}

Decision decide_with(double part, double p, double max_norm, double clip, double loss_scale, bool skips) {
  Buffer<double> norm_part(std::vector<double>{part});
  Buffer<Decision> decision(1);
  cuda::decide_step({norm_part.data(), p, max_norm, clip, loss_scale, skips, decision.data()}, nullptr);
  return decision[0];
}

TEST(StepDecisionOnHost, UnscalesClipsAndSkips) {
  const Decision found = decide_with(16 * 64, 2, 2, 0.5, 8, true);  // a norm of 32 at scale 8
  EXPECT_DOUBLE_EQ(found.norm, 4);
  EXPECT_DOUBLE_EQ(found.factor, 0.5 * (2 / (4 + 1e-6)) / 8);
  EXPECT_EQ(found.skipped, 0);

  EXPECT_EQ(decide_with(INFINITY, 2, 2, 1, 8, true).skipped, 1);
  EXPECT_EQ(decide_with(NAN, 2, 0, 1, 8, true).skipped, 1);
  EXPECT_EQ(decide_with(NAN, 2, 0, 1, 1, false).skipped, 0) << "as without loss scaling on the CPU";

  EXPECT_EQ(decide_with(9, 2, 5, 1, 1, false).factor, 1) << "below the limit nothing is clipped";
  EXPECT_DOUBLE_EQ(decide_with(9, INFINITY, 0, 1, 1, false).norm, 9);
  EXPECT_DOUBLE_EQ(decide_with(9, 1, 0, 1, 1, false).norm, 9);
  EXPECT_DOUBLE_EQ(decide_with(27, 3, 0, 1, 1, false).norm, 3);
}

template <class T>
double total_of(cuda::NormType type, const std::vector<std::vector<float>>& gradients, int64_t shift) {
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
      const auto total = [&](cuda::NormType type) {
        return in_every_order([&] { return Results{{total_of<T>(type, gradients, shift)}}; })[0][0];
      };
      EXPECT_NEAR(total(cuda::NormType::kTwo), squares, 1e-13 * squares);
      EXPECT_NEAR(total(cuda::NormType::kOne), sum, 1e-13 * sum);
      EXPECT_EQ(total(cuda::NormType::kInfinity), largest);
    }
  });
}

TEST(GradientNormOnHost, IsInfiniteIfAnElementIsNotFinite) {
  for (const float bad : {INFINITY, -INFINITY, NAN})
    for (const size_t at : {size_t{0}, size_t{5000}, size_t{8200}}) {
      std::vector<std::vector<float>> gradients = {normal(100, 1), normal(8201, 2)};
      gradients[1][at] = bad;
      for_types([&]<class T>(T) {
        for (const cuda::NormType type :
             {cuda::NormType::kOne, cuda::NormType::kTwo, cuda::NormType::kInfinity})
          EXPECT_EQ(total_of<T>(type, gradients, 0), INFINITY) << bad << " at " << at;
      });
    }
  EXPECT_EQ(total_of<float>(cuda::NormType::kTwo, {{3e38f, 3e38f}}, 0), 2 * std::pow(exact(3e38f), 2))
      << "squares of large numbers are no overflow";
}

}  // namespace
}  // namespace weft::testing
