// Rules of devices: the operators of optimizers.
#include <ATen/ops/full.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <optional>

#include "contract/device_comparison.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

using namespace weft::operators;  // NOLINT(google-build-using-namespace): all of them

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFactor = 0.25;

// Ranges of values, gradients, and two states, of which the second is of squares.
struct Ranges {
  TensorList values, gradients, first, second;
};

// Three lists of inputs for each of the four, of these sizes.
constexpr int64_t kSizes[] = {5, 0, 20'000};
constexpr size_t kRanges = 3;

TensorList update_inputs() {
  TensorList inputs;
  for (uint64_t list = 0; list < 4; ++list)
    for (const int64_t size : kSizes) {
      const at::Tensor values = host_values({size}, at::kDouble, 10 + list);
      inputs.push_back(list == 3 ? values.square() : values);
    }
  inputs.push_back(at::tensor({1.0F, static_cast<float>(kFactor), 0.0F}));  // a decision
  inputs.push_back(at::tensor({1.0F, static_cast<float>(kFactor), 1.0F}));  // one that skips the update
  return inputs;
}

Ranges own(const TensorList& inputs) {
  const auto list = [&](size_t number) {
    TensorList copies;
    for (size_t i = 0; i < kRanges; ++i) copies.push_back(inputs[number * kRanges + i].clone());
    return copies;
  };
  return {list(0), list(1), list(2), list(3)};
}

TensorList changed(const Ranges& ranges) {
  TensorList all;
  for (const TensorList* const list : {&ranges.values, &ranges.first, &ranges.second})
    all.insert(all.end(), list->begin(), list->end());
  return all;
}

// Runs an update by a factor, by a decision, and by one that skips it.
template <class Update>
Comparison::Run with_decisions(const Update& update) {
  return [update](const TensorList& inputs) {
    TensorList all;
    for (const int way : {0, 1, 2}) {
      const Ranges ranges = own(inputs);
      const std::optional<at::Tensor> decision =
          way == 0 ? std::nullopt
                   : std::optional(inputs[4 * kRanges + static_cast<size_t>(way) - 1].to(at::kDouble));
      update(ranges, way == 0 ? kFactor : 100, decision);
      const TensorList results = changed(ranges);
      all.insert(all.end(), results.begin(), results.end());
    }
    return all;
  };
}

void look_at_rules(Comparison& all) {
  using Decision = std::optional<at::Tensor>;
  const TensorList inputs = update_inputs();
  for (const bool decoupled : {false, true})
    for (const double step : {3.0, kInfinity})
      all.look<Adam>(inputs, with_decisions([=](const Ranges& own, double factor, const Decision& decision) {
                       call<Adam>(own.values, own.gradients, own.first, own.second, at::TensorList(), step,
                                  0.01, 0.9, 0.99, 1e-8, 0.1, decoupled, factor, decision);
                     }));
  for (const bool nesterov : {false, true})
    for (const bool first : {false, true})
      all.look<Sgd>(inputs, with_decisions([=](const Ranges& own, double factor, const Decision& decision) {
                      call<Sgd>(own.values, own.gradients, own.first, at::TensorList(), 0.01, 0.9, 0.0, 0.1,
                                nesterov, first, factor, decision);
                    }));
  all.look<Sgd>(inputs, with_decisions([](const Ranges& own, double factor, const Decision& decision) {
                  call<Sgd>(own.values, own.gradients, at::TensorList(), at::TensorList(), 0.01, 0.0, 0.0,
                            0.1, false, false, factor, decision);
                }));
  all.look<Lion>(inputs, with_decisions([](const Ranges& own, double factor, const Decision& decision) {
                   call<Lion>(own.values, own.gradients, own.first, 0.01, 0.9, 0.99, 0.1, factor, decision);
                 }));
}

void look_at_layerwise_rules(Comparison& all) {
  const TensorList inputs = update_inputs();
  const std::vector<double> rates = {0.01, 0.03, 0.02};
  const std::vector<int64_t> counted = {1, 3, 0, 0, 7, 15'000};
  all.look<Lars>(inputs, [=](const TensorList& in) {
    const Ranges ranges = own(in);
    call<Lars>(ranges.values, ranges.gradients, ranges.first, rates, 0.9, 0.1, kFactor);
    return changed(ranges);
  });
  all.look<LambMoments>(inputs, [=](const TensorList& in) {
    const Ranges ranges = own(in);
    const at::Tensor sums = call<LambMoments>(ranges.values, ranges.gradients, ranges.first, ranges.second,
                                              counted, 0.9, 0.99, 1e-6, 0.1, 0.5, 0.3, kFactor);
    TensorList results = changed(ranges);
    results.push_back(sums);
    return results;
  });
  all.look<LambStep>(inputs, [=](const TensorList& in) {
    const Ranges ranges = own(in);
    call<LambStep>(ranges.values, ranges.first, ranges.second, rates, 1e-6, 0.1, 0.5, 0.3);
    return changed(ranges);
  });
}

void look_at_norms(Comparison& all) {
  const TensorList inputs = update_inputs();
  for (const double p : {1.0, 2.0, 3.0, kInfinity})
    all.look<NormPart>(inputs, [=](const TensorList& in) {
      const Ranges ranges = own(in);
      const at::Tensor sum = call<NormPart>(ranges.gradients, p);
      ranges.gradients.back().narrow(0, 17, 1).fill_(kInfinity);
      return TensorList{sum, call<NormPart>(ranges.gradients, p).isinf()};
    });
  all.look<SumsOfSquares>(
      inputs, [](const TensorList& in) { return TensorList{call<SumsOfSquares>(own(in).gradients)}; });
  for (const double p : {1.0, 2.0, 3.0, kInfinity})
    for (const double part : {1024.0, 1e-3, kInfinity})
      for (const bool skips : {false, true})
        all.look<Decide>({at::full({}, part, at::kFloat)}, [=](const TensorList& in) {
          const at::Tensor decided = call<Decide>(in[0].to(at::kDouble), p, 2.0, 0.5, 8.0, skips);
          return TensorList{decided.nan_to_num(-1, -2, -3)};
        });
}

// A vector, and part of three matrices, of which some elements count.
void look_at_factored(Comparison& all) {
  const std::vector<int64_t> places = {0, 1, 5, 0, 5, 300, 40, 250, 7, 25'000};
  const std::vector<double> rates = {0.1, 0.2}, keep = {0.9, 0.8};
  TensorList inputs;
  for (const auto& [one, other] : {std::pair<int64_t, int64_t>{5, 25'100}, {5, 25'100}, {1, 101}, {5, 750}})
    for (const int64_t size : {one, other})
      inputs.push_back(host_values({size}, at::kDouble, inputs.size() + 1));
  struct Factored {
    explicit Factored(const TensorList& in)
        : values{in[0].clone(), in[1].clone()},
          gradients{in[2], in[3]},
          rows{in[4], in[5]},
          columns{in[6], in[7]} {}
    const TensorList values, gradients, rows, columns;
  };
  all.look<FactoredSums>(inputs, [=](const TensorList& in) {
    const Factored given(in);
    const TensorList none;
    return TensorList{
        call<FactoredSums>(given.gradients, none, none, none, places, at::ArrayRef<double>()),
        call<FactoredSums>(given.gradients, given.values, given.rows, given.columns, places, rates)};
  });
  all.look<FactoredNorms>(inputs, [=](const TensorList& in) {
    const Factored given(in);
    return TensorList{call<FactoredNorms>(given.gradients, given.rows, given.columns, places)};
  });
  all.look<FactoredAverage>(inputs, [=](const TensorList& in) {
    const Factored given(in);
    call<FactoredAverage>(given.values, given.gradients, given.rows, given.columns, places, rates, 0.9);
    return given.values;
  });
  all.look<FactoredStep>(inputs, [=](const TensorList& in) {
    const Factored given(in);
    call<FactoredStep>(given.values, given.gradients, given.rows, given.columns, places, rates, keep);
    return given.values;
  });
}

// Gradients in half precision, and a copy of the new values in it.
void look_at_half_gradients(Findings& findings) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    Comparison all({{at::kFloat, 1e-5}}, findings);
    const TensorList inputs = {host_values({20'000}, at::kDouble),
                               host_values({20'000}, at::kDouble, 2).to(dtype)};
    const auto run = [dtype](bool adam) {
      return [=](const TensorList& in) {
        const bool is_far = !device::is_on_host(in[0]);
        // The host reads what the device must compute from the same numbers in fp32.
        const TensorList w = {in[0].clone()}, g = {is_far ? in[1].clone() : in[1].to(at::kFloat)};
        const TensorList m = {at::zeros_like(w[0])}, v = {at::zeros_like(w[0])};
        const TensorList copies = {at::zeros_like(w[0], w[0].options().dtype(dtype))};
        if (adam)
          call<Adam>(w, g, m, v, copies, 1.0, 0.01, 0.9, 0.99, 1e-8, 0.1, true, kFactor, std::nullopt);
        else
          call<Sgd>(w, g, m, copies, 0.01, 0.9, 0.0, 0.1, false, true, kFactor, std::nullopt);
        const at::Tensor other = copies[0].to(at::kFloat) - w[0].to(dtype).to(at::kFloat);
        return TensorList{w[0], m[0], other};
      };
    };
    all.look<Adam>(inputs, run(true));
    all.look<Sgd>(inputs, run(false));
  }
}

}  // namespace

void check_update_operators(const World&, Findings& findings) {
  Comparison all({{at::kFloat, 1e-5}, {at::kDouble, 1e-11}}, findings);
  look_at_rules(all);
  look_at_layerwise_rules(all);
  look_at_norms(all);
  look_at_factored(all);
  look_at_half_gradients(findings);
}

}  // namespace weft::contract
