// Rules of devices: the operators of layers and losses.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/randint.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "contract/device_comparison.hpp"
#include "device/random.hpp"

namespace weft::contract {

namespace {

using namespace weft::operators;  // NOLINT(google-build-using-namespace): all of them
using Wanted = std::array<bool, 2>;

constexpr double kEpsilon = 1e-5;

at::Tensor made(at::IntArrayRef sizes, uint64_t seed = 1) {
  return host_values(sizes, at::kDouble, seed);
}

void look_at_rms_norm(Comparison& all) {
  for (const int64_t channels : {24, 64, 1030}) {
    const at::Tensor x = made({50, channels}), weight = made({channels}, 2), dy = made({50, channels}, 3);
    all.look<RmsNorm>({x, weight}, [](const TensorList& in) {
      const auto [y, scale] = call<RmsNorm>(in[0], in[1], kEpsilon);
      return TensorList{y, scale};
    });
    const at::Tensor scale = (x.square().mean(-1) + kEpsilon).rsqrt().to(at::kFloat);
    for (const bool adds : {false, true})
      for (const Wanted wanted : {Wanted{true, true}, Wanted{true, false}, Wanted{false, true}}) {
        all.look<RmsNormBackward>({dy, x, weight, scale, made({50, channels}, 4)}, [=](const TensorList& in) {
          const auto [dx, dweight] = call<RmsNormBackward>(
              in[0], in[1], in[2], in[3], adds ? std::optional(in[4]) : std::nullopt, wanted);
          return TensorList{dx, dweight};
        });
      }
  }
}

void look_at_layer_norm(Comparison& all) {
  for (const int64_t channels : {24, 64, 1031}) {
    const at::Tensor x = made({50, channels}), weight = made({channels}, 2), bias = made({channels}, 3);
    all.look<LayerNorm>({x, weight, bias}, [](const TensorList& in) {
      const auto [y, mean, scale] = call<LayerNorm>(in[0], in[1], in[2], kEpsilon);
      return TensorList{y, mean, scale};
    });
    const at::Tensor mean = x.mean(-1).to(at::kFloat);
    const at::Tensor scale = (x.var(-1, /*unbiased=*/false) + kEpsilon).rsqrt().to(at::kFloat);
    const TensorList inputs = {made({50, channels}, 4), x, weight, mean, scale, made({50, channels}, 5)};
    for (const bool adds : {false, true})
      for (const Wanted wanted : {Wanted{true, true}, Wanted{true, false}, Wanted{false, true}}) {
        all.look<LayerNormBackward>(inputs, [=](const TensorList& in) {
          const auto [dx, dweight, dbias] = call<LayerNormBackward>(
              in[0], in[1], in[2], in[3], in[4], adds ? std::optional(in[5]) : std::nullopt, wanted);
          return TensorList{dx, dweight, dbias};
        });
      }
  }
}

void look_at_units(Comparison& all) {
  const TensorList three = {made({9001}), made({9001}, 2), made({9001}, 3)};
  for (const int64_t kind : {0, 1}) {
    all.look<Gated>(three, [=](const TensorList& in) { return TensorList{call<Gated>(in[0], in[1], kind)}; });
    all.look<GatedBackward>(three, [=](const TensorList& in) {
      const auto [dgate, dup] = call<GatedBackward>(in[2], in[0], in[1], kind);
      return TensorList{dgate, dup};
    });
    all.look<GeluBackward>({made({60, 136}), made({60, 136}, 2)}, [=](const TensorList& in) {
      const auto [dx, sums] = call<GeluBackward>(in[0], in[1], kind);
      return TensorList{dx, sums};
    });
  }
  for (const auto& [tables, half] : {std::pair<int64_t, int64_t>{1, 32}, {2, 32}, {2, 10}})  // of 64 channels
    for (const bool back : {false, true})
      all.look<Rotate>(
          {made({2, 7, 3, 64}), made({tables, 7, half}, 2), made({tables, 7, half}, 3)},
          [=](const TensorList& in) { return TensorList{call<Rotate>(in[0], in[1], in[2], back)}; });
  for (const int64_t channels : {5, 768, 3001})
    all.look<ColumnSums>({made({200, channels})},
                         [](const TensorList& in) { return TensorList{call<ColumnSums>(in[0])}; });
  const TensorList attention = {host_values({2, 3, 8, 20}), host_values({2, 3, 8}, at::kFloat, 2),
                                made({2, 3, 5, 20}, 3), host_values({2, 3, 5}, at::kFloat, 4)};
  all.look<MergeAttention>(attention, [](const TensorList& in) {
    const at::Tensor out = in[0].clone(), logarithms = in[1].clone();
    call<MergeAttention>(out.narrow(2, 3, 5), logarithms.narrow(2, 3, 5), in[2], in[3]);
    return TensorList{out, logarithms};
  });
}

// Masks follow from the seed alone, which is a number, or on the device.
void look_at_dropout(Comparison& all) {
  constexpr double kKept = 0.7, kScale = 1 / kKept;
  constexpr int64_t kSeed = -7;
  const TensorList inputs = {made({9001}), made({9001}, 2), made({9001}, 3), at::full({1}, kSeed, at::kLong)};
  for (const bool on_device : {false, true}) {
    const auto place = [=](const TensorList& in) { return on_device ? std::optional(in[3]) : std::nullopt; };
    const int64_t seed = on_device ? 1 : kSeed;  // unused if it is on the device
    all.look<Bernoulli>(inputs, [=](const TensorList& in) {
      const at::Tensor values = at::empty_like(in[0], in[0].options().dtype(at::kByte));
      call<Bernoulli>(values, seed, place(in), kKept);
      return TensorList{values};
    });
    for (const bool adds : {false, true}) {
      const auto forward = [=](const TensorList& in) {
        return call<Dropout>(adds ? std::optional(in[0]) : std::nullopt, in[1], seed, place(in), kKept,
                             kScale);
      };
      all.look<Dropout>(inputs, [=](const TensorList& in) { return TensorList{std::get<0>(forward(in))}; });
      all.look<DropoutBackward>(inputs, [=](const TensorList& in) {
        return TensorList{
            call<DropoutBackward>(in[2], std::get<1>(forward(in)), seed, place(in), kKept, kScale)};
      });
    }
  }
}

// Returns labels of 33 rows: without `some`, all count; otherwise some rows count nothing.
at::Tensor labels_of(int64_t classes, bool some) {
  at::Tensor labels = at::randint(classes, {33}, device::host_generator(6), at::kLong);
  if (some) labels.narrow(0, 4, 3).fill_(-100);
  return labels;
}

void look_at_cross_entropy(Comparison& all) {
  for (const int64_t classes : {7, 64, 5001}) {
    const at::Tensor logits = made({33, classes}), half = at::full({}, 0.5, at::kFloat);
    all.look<CrossEntropy>({logits, labels_of(classes, false)}, [](const TensorList& in) {
      const auto [sum, normalisers] = call<CrossEntropy>(in[0], in[1]);
      return TensorList{sum, normalisers};
    });
    const at::Tensor labels = labels_of(classes, true);
    all.look<CrossEntropy>({logits, labels}, [](const TensorList& in) {
      return TensorList{std::get<0>(call<CrossEntropy>(in[0], in[1]))};
    });
    const at::Tensor normalisers =
        std::get<1>(call<CrossEntropy>(logits.to(at::kFloat), labels_of(classes, false)));
    const at::Tensor elsewhere = labels.clone();
    elsewhere.narrow(0, 10, 2).fill_(std::numeric_limits<int64_t>::min());
    all.look<CrossEntropyBackward>({half, logits, elsewhere, normalisers}, [](const TensorList& in) {
      const at::Tensor apart = at::empty_like(in[1]), same = in[1].clone();
      call<CrossEntropyBackward>(in[0], in[1], in[2], in[3], apart);
      call<CrossEntropyBackward>(in[0], same, in[2], in[3], same);
      return TensorList{apart, same};
    });
    all.look<CrossEntropyWithGradient>({logits, labels}, [](const TensorList& in) {
      const at::Tensor gradient = in[0].clone();
      const at::Tensor sum = call<CrossEntropyWithGradient>(gradient, in[1], 0.25);
      return TensorList{sum, gradient};
    });
    all.look<Rescale>({logits, half}, [](const TensorList& in) {
      const at::Tensor other = in[0].clone(), equal = in[0].clone();
      call<Rescale>(other, in[1], 0.25);
      call<Rescale>(equal, in[1], 0.5);
      return TensorList{other, equal};
    });
  }
}

// Two halves of a vocabulary, as two ranks have them.
void look_at_split_cross_entropy(Comparison& all) {
  constexpr int64_t kClasses = 64, kElsewhere = std::numeric_limits<int64_t>::min();
  const at::Tensor labels = labels_of(2 * kClasses, false);
  const TensorList logits = {made({33, kClasses}), made({33, kClasses}, 2)};
  const TensorList own = {labels.masked_fill(labels.ge(kClasses), kElsewhere),
                          (labels - kClasses).masked_fill(labels.lt(kClasses), kElsewhere)};
  at::Tensor peaks, parts;
  for (size_t i = 0; i < 2; ++i) {
    all.look<CrossEntropyParts>({logits[i], own[i]}, [](const TensorList& in) {
      return TensorList{std::get<0>(call<CrossEntropyParts>(in[0], in[1]))};
    });
    const at::Tensor found = std::get<0>(call<CrossEntropyParts>(logits[i].to(at::kFloat), own[i]));
    peaks = i == 0 ? found : at::maximum(peaks, found);
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto rebased = [](const TensorList& in) {
      const auto [own_peaks, sums] = call<CrossEntropyParts>(in[0], in[1]);
      call<CrossEntropyRebase>(sums, in[1], own_peaks, in[2]);
      return TensorList{sums};
    };
    // Peaks of more classes are no smaller, whatever the logits are rounded to.
    const at::Tensor more = peaks + 0.5;
    all.look<CrossEntropyRebase>({logits[i], own[i], more}, rebased);
    const at::Tensor found = rebased({logits[i].to(at::kFloat), own[i], peaks})[0];
    parts = i == 0 ? found : parts + found;
  }
  all.look<CrossEntropyFinish>({parts, labels, peaks}, [](const TensorList& in) {
    const auto [sum, normalisers] = call<CrossEntropyFinish>(in[0], in[1], in[2]);
    return TensorList{sum, normalisers};
  });
}

}  // namespace

void check_layer_operators(const World&, Findings& findings) {
  note_operators(findings);
  Comparison all({{at::kFloat, 1e-4}, {at::kBFloat16, 2e-2}, {at::kHalf, 4e-3}}, findings);
  look_at_rms_norm(all);
  look_at_layer_norm(all);
  look_at_units(all);
  look_at_dropout(all);
  look_at_cross_entropy(all);
  look_at_split_cross_entropy(all);
}

}  // namespace weft::contract
