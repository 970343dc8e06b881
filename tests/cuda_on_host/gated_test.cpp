#include "cuda/gated.hpp"

#include "cpu/gated.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;
using kernels::Gate;

struct Input {
  explicit Input(int64_t count) : gate(normal(count, 1, 3)), up(normal(count, 2)), dy(normal(count, 3)) {
    for (size_t i = 0; i < gate.size(); i += 9) gate[i] = i % 2 == 0 ? 100.0f : -100.0f;
  }
  std::vector<float> gate, up, dy;
};

// y, dgate, dup.
template <class T>
Results run(Gate kind, const Input& input, int64_t shift, bool in_place) {
  const auto count = static_cast<int64_t>(input.gate.size());
  Buffer<T> gate(input.gate, shift), up(input.up, 2 * shift), dy(input.dy, shift), y(count, 3 * shift),
      dgate(count, shift), dup(count, shift);
  cuda::gated_forward(kind, count, gate.data(), up.data(), y.data(), nullptr);
  if (!in_place) {
    cuda::gated_backward(kind, count, gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), nullptr);
    return {y.values(), dgate.values(), dup.values()};
  }
  Buffer<T> other(input.up, 2 * shift);
  cuda::gated_forward(kind, count, gate.data(), other.data(), other.data(), nullptr);
  cuda::gated_backward(kind, count, gate.data(), up.data(), dy.data(), gate.data(), dy.data(), nullptr);
  return {other.values(), gate.values(), dy.values()};
}

template <class T>
void expect_reference(Gate kind, int64_t count, int64_t shift, bool in_place) {
  SCOPED_TRACE(std::to_string(count) + (kind == Gate::kSilu ? " of SiLU" : " of GELU"));
  const Input input(count);
  const Results results = in_every_order([&] { return run<T>(kind, input, shift, in_place); });
  const std::vector<double> gate = rounded<T>(input.gate), up = rounded<T>(input.up),
                            dy = rounded<T>(input.dy);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i], root = 2 * std::sqrt(2 / M_PI);
    const double g = kind == Gate::kSilu ? x : root * (x + 0.044715 * x * x * x);
    const double slope = kind == Gate::kSilu ? 1 : root * (1 + 3 * 0.044715 * x * x);
    const double s = 1 / (1 + std::exp(-g)), activation = x * s;
    const double wanted[] = {activation * up[i], dy[i] * up[i] * (s + activation * (1 - s) * slope),
                             dy[i] * activation};
    for (size_t r = 0; r < 3; ++r)
      ASSERT_NEAR(results[r][i], wanted[r],
                  (kRounding<T> + 2e-6) * std::abs(wanted[r]) + 1e-6 * (1 + std::abs(up[i] * dy[i])))
          << "result " << r << ", element " << i << ", gate " << x;
  }
}

TEST(GatedOnHost, ComputesItsGradients) {
  for (const Gate kind : {Gate::kSilu, Gate::kGeluTanh})
    for_types([=]<class T>(T) {
      expect_reference<T>(kind, 1, 0, false);
      expect_reference<T>(kind, 7, 0, true);
      expect_reference<T>(kind, 4096, 0, false);
      expect_reference<T>(kind, 5003, 0, true);
      expect_reference<T>(kind, 2051, 1, false);
      expect_reference<T>(kind, 600, 1, true);
    });
}

TEST(GatedOnHost, AgreesWithTheCpu) {
  constexpr int64_t kCount = 3001;
  const Input input(kCount);
  for (const Gate kind : {Gate::kSilu, Gate::kGeluTanh}) {
    Buffer<float> y(kCount), dgate(kCount), dup(kCount);
    kernels::gated_forward(kind, kCount, input.gate.data(), input.up.data(), y.data());
    kernels::gated_backward(kind, kCount, input.gate.data(), input.up.data(), input.dy.data(), dgate.data(),
                            dup.data());
    const Results results = run<float>(kind, input, 0, false);
    expect_near(results[0], y.values(), 2e-6, 1e-6, "y");
    expect_near(results[1], dgate.values(), 2e-6, 1e-5, "dgate");
    expect_near(results[2], dup.values(), 2e-6, 1e-6, "dup");
  }
}

TEST(GatedOnHost, DoesNothingWithoutElements) {
  Buffer<float> kept(std::vector<float>{7});
  float* const none = kept.data();
  cuda::gated_forward(Gate::kSilu, 0, none, none, none, nullptr);
  cuda::gated_backward(Gate::kSilu, 0, none, none, none, none, none, nullptr);
  EXPECT_EQ(kept[0], 7);
}

}  // namespace
}  // namespace weft::testing
