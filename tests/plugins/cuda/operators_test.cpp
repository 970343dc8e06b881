// Weft's operators on a GPU against those in host memory.
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "dispatch/operators.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"

namespace weft::test {
namespace {

using Tensors = std::vector<at::Tensor>;

void on_gpu(const std::function<void()>& body) {
  on_ranks({1}, [&](World&) {
    device::use("cuda");
    at::manual_seed(5);
    body();
  });
}

at::Tensor there(const at::Tensor& tensor) {
  return device::on_device(tensor.clone());
}
Tensors there(const Tensors& tensors) {
  Tensors moved;
  for (const at::Tensor& tensor : tensors) moved.push_back(there(tensor));
  return moved;
}

void expect_near(const Tensors& far, const Tensors& here, double tolerance) {
  ASSERT_EQ(far.size(), here.size());
  for (size_t i = 0; i < here.size(); ++i)
    EXPECT_TRUE(is_near(device::on_host(far[i]), here[i], tolerance)) << "tensor " << i;
}

TEST(CudaOperators, AreRegisteredFromComputeCapability8) {
  on_gpu([] {
    const at::Tensor far = there(at::ones({2}));
    operators::for_each([&](auto each) { EXPECT_TRUE(has_kernel<decltype(each)>(far)) << each.kName; });
  });
}

TEST(CudaOperators, RmsNormIsThatOfTheCpu) {
  on_gpu([] {
    for (const int64_t channels : {24, 64, 1030}) {
      const at::Tensor x = at::randn({50, channels}), weight = at::randn({channels}),
                       dy = at::randn({50, channels});
      const auto run = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& dy) {
        const auto [y, scale] = call<operators::RmsNorm>(x, weight, 1e-5);
        const auto [dx, dweight] =
            call<operators::RmsNormBackward>(dy, x, weight, scale, y, std::array<bool, 2>{true, true});
        return Tensors{y, scale, dx, dweight};
      };
      expect_near(run(there(x), there(weight), there(dy)), run(x, weight, dy), 1e-4);
    }
  });
}

TEST(CudaOperators, LayerNormIsThatOfTheCpu) {
  on_gpu([] {
    for (const int64_t channels : {24, 768, 1031}) {
      const at::Tensor x = at::randn({300, channels}), weight = at::randn({channels}),
                       bias = at::randn({channels}), dy = at::randn({300, channels});
      const auto run = [](const Tensors& in) {
        const auto [y, mean, scale] = call<operators::LayerNorm>(in[0], in[1], in[2], 1e-5);
        const auto [dx, dweight, dbias] = call<operators::LayerNormBackward>(
            in[3], in[0], in[1], mean, scale, y, std::array<bool, 2>{true, true});
        return Tensors{y, mean, scale, dx, dweight, dbias};
      };
      const Tensors in = {x, weight, bias, dy};
      expect_near(run(there(in)), run(in), 1e-4);
    }
  });
}

TEST(CudaOperators, TheGradientOfGeluIsThatOfTheCpu) {
  on_gpu([] {
    for (const int64_t kind : {0, 1}) {
      const at::Tensor x = at::randn({300, 136}), dy = at::randn({300, 136});
      const auto run = [&](const at::Tensor& dy, const at::Tensor& x) {
        const auto [dx, sums] = call<operators::GeluBackward>(dy, x, kind);
        return Tensors{dx, sums};
      };
      expect_near(run(there(dy), there(x)), run(dy, x), 1e-4);
    }
  });
}

TEST(CudaOperators, GatedUnitsAreThoseOfTheCpu) {
  on_gpu([] {
    for (const int64_t kind : {0, 1}) {
      const Tensors in = {at::randn({9001}), at::randn({9001}), at::randn({9001})};
      const auto run = [&](const Tensors& in) {
        const auto [dgate, dup] = call<operators::GatedBackward>(in[2], in[0], in[1], kind);
        return Tensors{call<operators::Gated>(in[0], in[1], kind), dgate, dup};
      };
      expect_near(run(there(in)), run(in), 1e-5);
    }
  });
}

TEST(CudaOperators, RotaryPositionsAreThoseOfTheCpu) {
  on_gpu([] {
    for (const auto& [tables, half] : {std::pair(1, 32), {2, 32}, {1, 16}, {2, 10}}) {  // of 64 channels
      const Tensors in = {at::randn({2, 7, 3, 64}), at::randn({tables, 7, half}),
                          at::randn({tables, 7, half})};
      const auto run = [&](const Tensors& in) {
        return Tensors{call<operators::Rotate>(in[0], in[1], in[2], false),
                       call<operators::Rotate>(in[0], in[1], in[2], true)};
      };
      expect_near(run(there(in)), run(in), 1e-5);
    }
  });
}

TEST(CudaOperators, ColumnSumsAreThoseOfTheCpu) {
  on_gpu([] {
    for (const int64_t channels : {5, 768, 3001}) {
      const at::Tensor x = at::randn({2000, channels});
      expect_near({call<operators::ColumnSums>(there(x))}, {call<operators::ColumnSums>(x)}, 1e-4);
    }
  });
}

TEST(CudaOperators, DropoutHasTheBitsOfTheCpu) {
  on_gpu([] {
    const at::Tensor x = at::randn({9001}), residual = at::randn({9001}), dy = at::randn({9001});
    const auto run = [](const Tensors& in, const std::optional<at::Tensor>& place) {
      const int64_t seed = place ? 1 : -7;  // unused if there is a place
      const auto [y, mask] = call<operators::Dropout>(in[0], in[1], seed, place, 0.7, 1 / 0.7);
      const at::Tensor drawn = at::empty(in[1].sizes(), in[1].options().dtype(at::kByte));
      call<operators::Bernoulli>(drawn, seed, place, 0.7);
      return Tensors{call<operators::DropoutBackward>(in[2], mask, seed, place, 0.7, 1 / 0.7), drawn, y};
    };
    const Tensors here = run({residual, x, dy}, std::nullopt), in = there({residual, x, dy});
    for (const auto& place :
         {std::optional<at::Tensor>(), std::optional(there(at::full({1}, -7, at::kLong)))}) {
      const Tensors far = run(in, place);
      EXPECT_TRUE(at::equal(device::on_host(far[0]), here[0]));
      EXPECT_TRUE(at::equal(device::on_host(far[1]), here[1]));
      EXPECT_TRUE(is_near(device::on_host(far[2]), here[2], 1e-6));
    }
  });
}

TEST(CudaOperators, CrossEntropyIsThatOfTheCpu) {
  on_gpu([] {
    for (const int64_t classes : {7, 64, 5001, 400000}) {
      const at::Tensor logits = at::randn({33, classes}), labels = at::randint(classes, {33}, at::kLong);
      labels[4] = -100;
      const auto run = [](const at::Tensor& logits, const at::Tensor& labels) {
        const auto [sum, normalisers] = call<operators::CrossEntropy>(logits, labels);
        const at::Tensor gradient = at::empty_like(logits);
        call<operators::CrossEntropyBackward>(at::full({}, 0.5, logits.options()), logits, labels,
                                              normalisers, gradient);
        const auto [peaks, parts] = call<operators::CrossEntropyParts>(logits, labels);
        const at::Tensor all = peaks.clone();
        call<operators::CrossEntropyRebase>(parts, labels, peaks, all);
        const auto [split_sum, unused] = call<operators::CrossEntropyFinish>(parts, labels, all);
        const at::Tensor at_once = logits.clone();
        const at::Tensor same_sum = call<operators::CrossEntropyWithGradient>(at_once, labels, 0.25);
        call<operators::Rescale>(at_once, at::full({}, 0.5, logits.options()), 0.25);
        return Tensors{sum, gradient, split_sum, same_sum, at_once};
      };
      const at::Tensor split_labels = labels.masked_fill(labels.lt(0), -1);
      expect_near(run(there(logits), there(split_labels)), run(logits, split_labels), 1e-4);
    }
  });
}

// As padded logits are (device/padded_rows.hpp).
TEST(CudaOperators, CrossEntropyTakesRowsThatAreApart) {
  on_gpu([] {
    const at::Tensor logits = at::randn({33, 1031}), labels = at::randint(1031, {33}, at::kLong);
    const at::Tensor large = there(at::full({33, 1088}, std::nan(""))), apart = large.narrow(1, 0, 1031);
    apart.copy_(logits);
    const auto run = [](const at::Tensor& logits, const at::Tensor& labels) {
      const auto [sum, normalisers] = call<operators::CrossEntropy>(logits, labels);
      call<operators::CrossEntropyBackward>(at::full({}, 0.5, logits.options()), logits, labels, normalisers,
                                            logits);
      return Tensors{sum, logits};
    };
    expect_near(run(apart, there(labels)), run(logits.clone(), labels), 1e-4);
    EXPECT_TRUE(device::on_host(large.narrow(1, 1031, 57)).isnan().all().item<bool>());
  });
}

at::ScalarType other_half(at::ScalarType type) {
  return type == at::kHalf ? at::kBFloat16 : at::kHalf;
}

constexpr double kFactor = 0.25;
// Returns nothing for the host, which passes the factor itself, and for the device a decision that has it.
std::optional<at::Tensor> decision_of(bool far, bool skips = false) {
  if (!far) return std::nullopt;
  return there(at::tensor({1.0, kFactor, skips ? 1.0 : 0.0}, at::kDouble));
}

TEST(CudaOperators, DecidesAsTheHost) {
  on_gpu([] {
    for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
      for (const double part : {1024.0, std::numeric_limits<double>::infinity()}) {
        const at::Tensor sum = at::full({}, part, at::kDouble);
        const at::Tensor here = call<operators::Decide>(sum, p, 2.0, 0.5, 8.0, true);
        EXPECT_TRUE(at::allclose(call<operators::Decide>(there(sum), p, 2.0, 0.5, 8.0, true).cpu(), here));
      }
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor before = at::randn({20000}, dtype);
      const Tensors w = {there(before)}, g = {there(before)}, m = {there(before)}, v = {there(before)};
      const auto skips = decision_of(true, true);
      call<operators::Adam>(w, g, m, v, at::TensorList(), 3.0, 0.01, 0.9, 0.99, 1e-8, 0.1, true, 1.0, skips);
      call<operators::Sgd>(w, g, m, at::TensorList(), 0.01, 0.9, 0.0, 0.1, true, false, 1.0, skips);
      call<operators::Lion>(w, g, m, 0.01, 0.9, 0.99, 0.1, 1.0, skips);
      for (const auto* list : {&w, &m, &v}) EXPECT_TRUE(at::equal((*list)[0].cpu(), before));
    }
  });
}

// They also fill working copies: of the type of the gradients, and any beside gradients in fp32.
TEST(CudaOperators, UpdatesTakeGradientsInHalfPrecision) {
  on_gpu([] {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const at::Tensor values = at::randn({20000}), gradients = at::randn({20000}).to(type);
      const auto run = [&](bool far, bool exact) {
        const auto own = [&](const at::Tensor& given) { return far ? there(given) : given.clone(); };
        Tensors results;
        const auto decision = decision_of(far);
        const double factor = far ? 100 : kFactor;
        for (const bool adam : {true, false}) {
          const Tensors g = {own(exact ? gradients.to(at::kFloat) : gradients)};
          const Tensors w = {own(values)}, m = {own(at::zeros({20000}))}, v = {own(at::zeros({20000}))};
          const Tensors copies = {own(at::zeros({20000}, exact ? other_half(type) : type))};
          if (adam)
            call<operators::Adam>(w, g, m, v, copies, 1.0, 0.01, 0.9, 0.99, 1e-8, 0.1, true, factor,
                                  decision);
          else
            call<operators::Sgd>(w, g, m, copies, 0.01, 0.9, 0.0, 0.1, false, true, factor, decision);
          results.push_back(w[0]);
          EXPECT_TRUE(at::equal(copies[0], w[0].to(copies[0].scalar_type())));
        }
        return results;
      };
      expect_near(run(true, false), run(false, true), 1e-5);
      expect_near(run(false, false), run(false, true), 1e-7);
    }
  });
}

TEST(CudaOperators, MergeAttentionOfARangeOfThePositions) {
  on_gpu([] {
    const auto run = [](const Tensors& given) {
      const at::Tensor out = given[0].clone(), logarithms = given[1].clone();
      call<operators::MergeAttention>(out.narrow(2, 3, 5), logarithms.narrow(2, 3, 5), given[2], given[3]);
      return Tensors{out, logarithms};
    };
    const Tensors here = {at::randn({2, 3, 8, 20}), at::randn({2, 3, 8}), at::randn({2, 3, 5, 20}),
                          at::randn({2, 3, 5})};
    expect_near(run(there(here)), run(here), 1e-5);
  });
}

TEST(CudaOperators, UpdatesAndNormsAreThoseOfTheCpu) {
  on_gpu([] {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const auto made = [&] { return Tensors{at::randn({5}, dtype), at::randn({20000}, dtype)}; };
      const Tensors values = made(), gradients = made(), first = made();
      Tensors second = made();
      for (at::Tensor& square : second) square = square.square();
      const auto run = [&](bool far) {
        const auto own = [&](const Tensors& given) {
          Tensors copies;
          for (const at::Tensor& tensor : given) copies.push_back(far ? there(tensor) : tensor.clone());
          return copies;
        };
        Tensors results;
        const auto decision = decision_of(far);
        const double factor = far ? 100 : kFactor;
        const auto with = [&](const auto& update) {
          const Tensors w = own(values), g = own(gradients), m = own(first), v = own(second);
          update(w, g, m, v);
          for (const Tensors& list : {w, m, v}) results.insert(results.end(), list.begin(), list.end());
        };
        const std::vector<double> rates = {0.01, 0.02};
        const std::vector<int64_t> counted = {1, 3, 0, 20000};
        with([&](auto& w, auto& g, auto& m, auto& v) {
          call<operators::Adam>(w, g, m, v, at::TensorList(), 3.0, 0.01, 0.9, 0.99, 1e-8, 0.1, true, factor,
                                decision);
        });
        with([&](auto& w, auto& g, auto& m, auto&) {
          call<operators::Sgd>(w, g, m, at::TensorList(), 0.01, 0.9, 0.0, 0.1, true, false, factor, decision);
        });
        with([&](auto& w, auto& g, auto& m, auto&) {
          call<operators::Lion>(w, g, m, 0.01, 0.9, 0.99, 0.1, factor, decision);
        });
        with([&](auto& w, auto& g, auto& m, auto&) {
          call<operators::Lars>(w, g, m, rates, 0.9, 0.1, kFactor);
        });
        with([&](auto& w, auto& g, auto& m, auto& v) {
          results.push_back(
              call<operators::LambMoments>(w, g, m, v, counted, 0.9, 0.99, 1e-6, 0.1, 0.5, 0.3, kFactor)
                  .to(at::kFloat));
          call<operators::LambStep>(w, m, v, rates, 1e-6, 0.1, 0.5, 0.3);
        });
        for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
          results.push_back(call<operators::NormPart>(own(gradients), p).to(at::kFloat));
        results.push_back(call<operators::SumsOfSquares>(own(gradients)).to(at::kFloat));
        return results;
      };
      const Tensors far = run(true), here = run(false);
      ASSERT_EQ(far.size(), here.size());
      for (size_t i = 0; i < here.size(); ++i)
        EXPECT_TRUE(at::allclose(device::on_host(far[i]), here[i], 1e-4, 1e-5)) << i;
    }
  });
}

// A vector, and part of three matrices, of which some elements count.
TEST(CudaOperators, FactoredUpdatesAreThoseOfTheCpu) {
  on_gpu([] {
    const std::vector<int64_t> places = {0, 1, 5, 0, 5, 300, 40, 250, 7, 25000};
    const std::vector<double> rates = {0.1, 0.2}, keep = {0.9, 0.8};
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const auto made = [&](int64_t one, int64_t other) {
        return Tensors{at::randn({one}, dtype), at::randn({other}, dtype)};
      };
      const Tensors values = made(5, 25100), gradients = made(5, 25100);
      const Tensors rows = made(1, 101), columns = made(5, 3 * 250), none;
      const auto run = [&](bool far) {
        const auto own = [&](const Tensors& given) {
          Tensors copies;
          for (const at::Tensor& tensor : given) copies.push_back(far ? there(tensor) : tensor.clone());
          return copies;
        };
        const Tensors w = own(values), g = own(gradients), r = own(rows), c = own(columns);
        Tensors results = {call<operators::FactoredSums>(g, none, none, none, places, at::ArrayRef<double>()),
                           call<operators::FactoredSums>(g, w, r, c, places, rates),
                           call<operators::FactoredNorms>(g, r, c, places)};
        call<operators::FactoredAverage>(w, g, r, c, places, rates, 0.9);
        call<operators::FactoredStep>(w, g, r, c, places, rates, keep);
        results.insert(results.end(), w.begin(), w.end());
        return results;
      };
      expect_near(run(true), run(false), dtype == at::kFloat ? 1e-5 : 1e-12);
    }
  });
}

}  // namespace
}  // namespace weft::test
