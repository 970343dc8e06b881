// Weft's operators of optimizers in host memory: kernels/cpu, and ATen's fused kernels for SGD and Adam,
// which devices without kernels of their own get, too.
#include <ATen/Dispatch.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "cpu/update_rules.hpp"
#include "formula/decision.hpp"
#include "weft/device_operators.hpp"

namespace weft {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Accumulates add(sum, |x|) over the data in float64, without a converted copy. Several lanes keep the
// additions independent of each other.
template <class T, class Add, class Merge>
double accumulate(const T* data, int64_t count, const Add& add, const Merge& merge) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane)
      sums[lane] = add(sums[lane], std::fabs(static_cast<double>(data[i + lane])));
  for (; i < count; ++i) sums[0] = add(sums[0], std::fabs(static_cast<double>(data[i])));
  double total = 0;
  for (const double sum : sums) total = merge(total, sum);
  return total;
}

template <class T>
double part_of(const T* data, int64_t count, double p) {
  const auto plus = [](double a, double b) { return a + b; };
  if (p == 2)
    return accumulate(
        data, count, [](double sum, double x) { return sum + x * x; }, plus);
  if (p == 1) return accumulate(data, count, plus, plus);
  if (std::isinf(p)) {
    // Comparisons with NaN are false, so this order keeps a NaN.
    const auto larger = [](double a, double b) { return a >= b || std::isnan(a) ? a : b; };
    return accumulate(data, count, larger, larger);
  }
  return accumulate(
      data, count, [p](double sum, double x) { return sum + std::pow(x, p); }, plus);
}

at::Tensor norm_part(at::TensorList gradients, double p) {
  double total = 0;
  for (const at::Tensor& part : gradients) {
    double value = 0;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, part.scalar_type(), "norm_part", [&] {
      value = part_of(part.const_data_ptr<scalar_t>(), part.numel(), p);
    });
    if (!std::isfinite(value)) return at::scalar_tensor(kInfinity, at::kDouble);
    total = std::isinf(p) ? std::max(total, value) : total + value;
  }
  return at::scalar_tensor(total, at::kDouble);
}

at::Tensor decide(const at::Tensor& norm_part, double p, double max_norm, double clip, double loss_scale,
                  bool skips) {
  const kernels::Decision decision =
      kernels::decide(*norm_part.const_data_ptr<double>(), p, max_norm, clip, loss_scale, skips);
  return at::tensor({decision.norm, decision.factor, decision.skipped}, at::kDouble);
}

at::Tensor sums_of_squares(at::TensorList ranges) {
  const at::Tensor sums = at::empty({static_cast<int64_t>(ranges.size())}, at::kDouble);
  double* sum = sums.mutable_data_ptr<double>();
  for (const at::Tensor& range : ranges)
    AT_DISPATCH_FLOATING_TYPES(range.scalar_type(), "sums_of_squares", [&] {
      *sum++ = kernels::sum_of_squares(range.numel(), range.const_data_ptr<scalar_t>());
    });
  return sums;
}

using Decision = std::optional<at::Tensor>;  // of operators::Decide, or none

// What ATen's fused kernels take.
struct Scaling {
  std::optional<at::Tensor> divisor = {};    // by which they divide float gradients while they read
  std::optional<at::Tensor> found_inf = {};  // 1: they leave everything as it is
};

// Their division by a float is not exact enough for gradients of double, which are multiplied here.
Scaling scaling_for(at::TensorList gradients, double factor, const Decision& decision) {
  const bool divides = gradients.front().scalar_type() == at::kFloat;
  if (decision) {
    const at::Tensor decided = (*decision)[1], skipped = (*decision)[2].to(at::kFloat);
    if (divides) return {decided.reciprocal().to(at::kFloat), skipped};
    at::_foreach_mul_(gradients, decided);
    return {std::nullopt, skipped};
  }
  if (factor == 1.0) return {};
  if (divides) return {at::full({}, 1.0 / factor, gradients.front().options())};
  at::_foreach_mul_(gradients, factor);
  return {};
}

// Calls update(first, count, gradients of these ranges) with gradients of the values' type. Those in half
// precision are converted one range at a time.
template <class Update>
void with_exact_gradients(at::TensorList values, at::TensorList gradients, const Update& update) {
  const at::ScalarType type = values.front().scalar_type();
  if (gradients.front().scalar_type() == type) return update(0, values.size(), gradients);
  for (size_t i = 0; i < values.size(); ++i) update(i, 1, at::TensorList(gradients[i].to(type)));
}

void fill(at::TensorList working, at::TensorList values) {
  if (!working.empty()) at::_foreach_copy_(working, values);
}

void exact_adam(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                at::TensorList squares, double step, double lr, double beta1, double beta2, double eps,
                double weight_decay, bool decoupled, double factor, const Decision& decision) {
  const Scaling scaling = scaling_for(gradients, factor, decision);
  // The kernel takes a step count for each tensor and only reads it, so all share one.
  const std::vector<at::Tensor> counts(values.size(),
                                       at::full({}, step, values.front().options().dtype(at::kFloat)));
  if (decoupled)
    at::_fused_adamw_(values, gradients, averages, squares, {}, counts, lr, beta1, beta2, weight_decay, eps,
                      /*amsgrad=*/false, /*maximize=*/false, scaling.divisor, scaling.found_inf);
  else
    at::_fused_adam_(values, gradients, averages, squares, {}, counts, lr, beta1, beta2, weight_decay, eps,
                     /*amsgrad=*/false, /*maximize=*/false, scaling.divisor, scaling.found_inf);
}

// Returns `count` ranges from `first` on of a list that may be empty.
at::TensorList part_of_list(at::TensorList list, size_t first, size_t count) {
  return list.empty() ? list : list.slice(first, count);
}

void adam(at::TensorList values, at::TensorList gradients, at::TensorList averages, at::TensorList squares,
          at::TensorList working, double step, double lr, double beta1, double beta2, double eps,
          double weight_decay, bool decoupled, double factor, const Decision& decision) {
  with_exact_gradients(values, gradients, [&](size_t first, size_t count, at::TensorList exact) {
    exact_adam(values.slice(first, count), exact, averages.slice(first, count), squares.slice(first, count),
               step, lr, beta1, beta2, eps, weight_decay, decoupled, factor, decision);
    fill(part_of_list(working, first, count), values.slice(first, count));
  });
}

void sgd(at::TensorList values, at::TensorList gradients, at::TensorList momenta, at::TensorList working,
         double lr, double momentum, double dampening, double weight_decay, bool nesterov, bool first,
         double factor, const Decision& decision) {
  with_exact_gradients(values, gradients, [&](size_t begin, size_t count, at::TensorList exact) {
    const Scaling scaling = scaling_for(exact, factor, decision);
    at::_fused_sgd_(values.slice(begin, count), exact, part_of_list(momenta, begin, count), weight_decay,
                    momentum, lr, dampening, nesterov,
                    /*maximize=*/false, first, scaling.divisor, scaling.found_inf);
    fill(part_of_list(working, begin, count), values.slice(begin, count));
  });
}

// Calls update(i, T()) for each range with the C++ type of its values.
template <class Update>
void for_ranges(at::TensorList values, const Update& update) {
  for (size_t i = 0; i < values.size(); ++i)
    AT_DISPATCH_FLOATING_TYPES(values[i].scalar_type(), "update", [&] { update(i, scalar_t()); });
}

void lion(at::TensorList values, at::TensorList gradients, at::TensorList momenta, double lr, double beta1,
          double beta2, double weight_decay, double factor, const Decision& decision) {
  const double* const decided = decision ? decision->const_data_ptr<double>() : nullptr;
  if (decided != nullptr && decided[2] != 0) return;
  const kernels::LionOptions options{lr, beta1, beta2, weight_decay,
                                     decided != nullptr ? decided[1] : factor};
  for_ranges(values, [&]<class T>(size_t i, T) {
    kernels::lion(values[i].numel(), values[i].data_ptr<T>(), gradients[i].data_ptr<T>(),
                  momenta[i].data_ptr<T>(), options);
  });
}

void lars(at::TensorList values, at::TensorList gradients, at::TensorList momenta, at::ArrayRef<double> rates,
          double momentum, double weight_decay, double factor) {
  for_ranges(values, [&]<class T>(size_t i, T) {
    kernels::lars(values[i].numel(), values[i].data_ptr<T>(), gradients[i].data_ptr<T>(),
                  momenta.empty() ? nullptr : momenta[i].data_ptr<T>(),
                  kernels::LarsOptions{rates[i], momentum, weight_decay, factor});
  });
}

// Elements that are not counted go to sums of their own.
at::Tensor lamb_moments(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                        at::TensorList squares, at::IntArrayRef counted, double beta1, double beta2,
                        double eps, double weight_decay, double correction1, double correction2,
                        double factor) {
  const kernels::LambOptions options{beta1, beta2, eps, weight_decay, correction1, correction2, factor};
  const at::Tensor result = at::zeros({static_cast<int64_t>(values.size()), 2}, at::kDouble);
  for_ranges(values, [&]<class T>(size_t i, T) {
    double others[2] = {};
    const auto pass = [&](int64_t from, int64_t to, double* sums) {
      kernels::lamb_moments(to - from, values[i].const_data_ptr<T>() + from,
                            gradients[i].data_ptr<T>() + from, averages[i].data_ptr<T>() + from,
                            squares[i].data_ptr<T>() + from, options, sums);
    };
    const int64_t begin = counted[2 * i], end = begin + counted[2 * i + 1];
    pass(0, begin, others);
    pass(begin, end, result.mutable_data_ptr<double>() + 2 * i);
    pass(end, values[i].numel(), others);
  });
  return result;
}

void lamb_step(at::TensorList values, at::TensorList averages, at::TensorList squares,
               at::ArrayRef<double> rates, double eps, double weight_decay, double correction1,
               double correction2) {
  const kernels::LambOptions options{0, 0, eps, weight_decay, correction1, correction2, 1};
  for_ranges(values, [&]<class T>(size_t i, T) {
    kernels::lamb_step(values[i].numel(), values[i].data_ptr<T>(), averages[i].const_data_ptr<T>(),
                       squares[i].const_data_ptr<T>(), options, rates[i]);
  });
}

TORCH_LIBRARY_IMPL(weft, CPU, library) {
  using namespace operators;
  implement<NormPart>(library, norm_part);
  implement<Decide>(library, decide);
  implement<SumsOfSquares>(library, sums_of_squares);
  implement<Lion>(library, lion);
  implement<Lars>(library, lars);
  implement<LambMoments>(library, lamb_moments);
  implement<LambStep>(library, lamb_step);
}

// libtorch has them for every device.
TORCH_LIBRARY_IMPL(weft, CompositeExplicitAutograd, library) {
  operators::implement<operators::Adam>(library, adam);
  operators::implement<operators::Sgd>(library, sgd);
}

}  // namespace

}  // namespace weft
