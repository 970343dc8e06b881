// Weft's operators of layers in host memory: the kernels of kernels/cpu, and operations of libtorch.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "cpu/cross_entropy.hpp"
#include "cpu/dropout.hpp"
#include "cpu/gated.hpp"
#include "cpu/rms_norm.hpp"
#include "cpu/rotary.hpp"
#include "dispatch/compositions.hpp"
#include "dispatch/with_type.hpp"
#include "weft/device_operators.hpp"

namespace weft {

namespace {

at::TensorOptions exact_options(const at::Tensor& x) {
  return x.options().dtype(at::toOpMathType(x.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor> rms_norm_shapes(const at::Tensor& x, const at::Tensor&, double) {
  return {at::empty_like(x), at::empty({x.numel() / x.size(-1)}, exact_options(x))};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const auto result = rms_norm_shapes(x, weight, epsilon);
  const auto& [y, scale] = result;
  const int64_t channels = x.size(-1), rows = scale.numel();
  with_type(x.scalar_type(), [&, &y = y, &scale = scale]<typename T>(T) {
    using Exact = kernels::Exact<T>;
    kernels::rms_norm_forward<T>(rows, channels, static_cast<Exact>(epsilon), x.const_data_ptr<T>(),
                                 weight.const_data_ptr<T>(), y.mutable_data_ptr<T>(),
                                 scale.mutable_data_ptr<Exact>());
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& weight, const at::Tensor& scale,
                                                     const std::optional<at::Tensor>& residual,
                                                     std::array<bool, 2> wanted) {
  const int64_t channels = x.size(-1), rows = scale.numel();
  at::Tensor dx, dweight;
  with_type(x.scalar_type(), [&]<typename T>(T) {
    using Exact = kernels::Exact<T>;
    if (wanted[0]) {
      dx = at::empty_like(x);
      kernels::rms_norm_backward<T>(rows, channels, x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                                    scale.const_data_ptr<Exact>(), dy.const_data_ptr<T>(),
                                    residual ? residual->const_data_ptr<T>() : nullptr,
                                    dx.mutable_data_ptr<T>());
    }
    if (wanted[1]) {
      const at::Tensor sums = at::empty({channels}, exact_options(x));
      kernels::rms_norm_weight_gradient<T>(rows, channels, x.const_data_ptr<T>(),
                                           scale.const_data_ptr<Exact>(), dy.const_data_ptr<T>(),
                                           sums.mutable_data_ptr<Exact>());
      dweight = sums.to(x.scalar_type());
    }
  });
  return {dx, dweight};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double epsilon) {
  const auto [y, mean, scale] = at::native_layer_norm(x, x.sizes().slice(x.dim() - 1), weight, bias, epsilon);
  const at::TensorOptions exact = exact_options(x);
  return {y, mean.reshape(-1).to(exact), scale.reshape(-1).to(exact)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
    const at::Tensor& scale, const std::optional<at::Tensor>& residual, std::array<bool, 2> wanted) {
  // libtorch keeps the statistics in the type of x, in this shape.
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = 1;
  const auto as_saved = [&](const at::Tensor& numbers) { return numbers.reshape(shape).to(x.scalar_type()); };
  auto gradients =
      at::native_layer_norm_backward(dy, x, x.sizes().slice(x.dim() - 1), as_saved(mean), as_saved(scale),
                                     weight, weight, {wanted[0], wanted[1], wanted[1]});
  if (residual && wanted[0]) std::get<0>(gradients).add_(*residual);
  return gradients;
}

at::Tensor column_sums(const at::Tensor& x) {
  return x.sum(0);
}

std::tuple<at::Tensor, at::Tensor> gelu_backward(const at::Tensor& dy, const at::Tensor& x, int64_t kind) {
  const at::Tensor dx = at::gelu_backward(dy, x, kind == 0 ? "none" : "tanh");
  return {dx, dx.sum(0)};
}

at::Tensor gated_shape(const at::Tensor& gate, const at::Tensor&, int64_t) {
  return at::empty_like(gate);
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, int64_t kind) {
  if (gate.scalar_type() != at::kFloat) return gated_by_operations(gate, up, kind);
  const at::Tensor y = at::empty_like(gate);
  kernels::gated_forward(static_cast<kernels::Gate>(kind), gate.numel(), gate.const_data_ptr<float>(),
                         up.const_data_ptr<float>(), y.mutable_data_ptr<float>());
  return y;
}

std::tuple<at::Tensor, at::Tensor> gated_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                  const at::Tensor& up, int64_t kind) {
  if (gate.scalar_type() != at::kFloat) return gated_backward_by_operations(dy, gate, up, kind);
  const at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  kernels::gated_backward(static_cast<kernels::Gate>(kind), gate.numel(), gate.const_data_ptr<float>(),
                          up.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                          dgate.mutable_data_ptr<float>(), dup.mutable_data_ptr<float>());
  return {dgate, dup};
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, bool back) {
  if (x.scalar_type() != at::kFloat) return rotate_by_operations(x, cosine, sine, back);
  const at::Tensor y = at::empty_like(x);
  kernels::rotate(
      {x.size(0), x.size(1), x.size(2), x.size(3), cosine.size(0) == 1, x.size(3) - 2 * cosine.size(-1)},
      x.const_data_ptr<float>(), cosine.const_data_ptr<float>(), sine.const_data_ptr<float>(), back,
      y.mutable_data_ptr<float>());
  return y;
}

at::Tensor masked(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& mask, double scale) {
  const at::Tensor y = at::empty_like(x);
  with_type(x.scalar_type(), [&]<typename T>(T) {
    kernels::dropout<T>(x.numel(), residual.defined() ? residual.const_data_ptr<T>() : nullptr,
                        x.const_data_ptr<T>(), mask.const_data_ptr<uint8_t>(),
                        static_cast<kernels::Exact<T>>(scale), y.mutable_data_ptr<T>());
  });
  return y;
}

void bernoulli(at::Tensor values, int64_t seed, const std::optional<at::Tensor>& seed_tensor, double kept) {
  const int64_t number = seed_tensor ? *seed_tensor->const_data_ptr<int64_t>() : seed;
  kernels::bernoulli(values.numel(), static_cast<uint64_t>(number), kept, values.mutable_data_ptr<uint8_t>());
}

// Keeps one byte per element: a processor draws the numbers more slowly than it reads them.
std::tuple<at::Tensor, at::Tensor> dropout(const std::optional<at::Tensor>& residual, const at::Tensor& x,
                                           int64_t seed, const std::optional<at::Tensor>& seed_tensor,
                                           double kept, double scale) {
  const at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kByte));
  bernoulli(mask, seed, seed_tensor, kept);
  return {masked(residual.value_or(at::Tensor()), x, mask, scale), mask};
}

at::Tensor dropout_backward(const at::Tensor& dy, const at::Tensor& mask, int64_t,
                            const std::optional<at::Tensor>&, double, double scale) {
  return masked({}, dy, mask, scale);
}

// The kernels take no half precision.
at::Tensor exact_logits(const at::Tensor& logits) {
  return logits.to(at::toOpMathType(logits.scalar_type()));
}

kernels::CrossEntropyRows rows_of(const at::Tensor& logits, const at::Tensor& labels) {
  return {labels.numel(), logits.size(-1), labels.const_data_ptr<int64_t>()};
}

template <typename T>
kernels::RowNormaliser<T>* normalisers_in(const at::Tensor& pairs) {
  return static_cast<kernels::RowNormaliser<T>*>(pairs.data_ptr());
}

std::tuple<at::Tensor, at::Tensor> cross_entropy(const at::Tensor& given, const at::Tensor& labels) {
  const at::Tensor logits = exact_logits(given);
  const at::Tensor normalisers = at::empty({labels.numel(), 2}, logits.options());
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy", [&] {
    sum = kernels::cross_entropy_forward(rows_of(logits, labels), logits.const_data_ptr<scalar_t>(),
                                         normalisers_in<scalar_t>(normalisers));
  });
  return {at::scalar_tensor(sum, logits.options()), normalisers};
}

void cross_entropy_backward(const at::Tensor& gradient, const at::Tensor& given, const at::Tensor& labels,
                            const at::Tensor& normalisers, at::Tensor result) {
  if (given.numel() == 0) return;  // a rank can have none of the classes
  const at::Tensor logits = exact_logits(given);
  const at::Tensor made = logits.is_same(given) ? result : logits;
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy_backward", [&] {
    kernels::cross_entropy_backward<scalar_t>(
        rows_of(logits, labels), logits.const_data_ptr<scalar_t>(), normalisers_in<scalar_t>(normalisers),
        gradient.item<scalar_t>(), static_cast<scalar_t*>(made.data_ptr()));
  });
  if (!made.is_same(result)) result.copy_(made);
}

at::Tensor cross_entropy_with_gradient(at::Tensor given, const at::Tensor& labels, double gradient) {
  const at::Tensor logits = exact_logits(given);
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy_with_gradient", [&] {
    sum = kernels::cross_entropy_with_gradient(rows_of(logits, labels), logits.mutable_data_ptr<scalar_t>(),
                                               static_cast<scalar_t>(gradient));
  });
  if (!logits.is_same(given)) given.copy_(logits);
  return at::scalar_tensor(sum, logits.options());
}

void rescale(at::Tensor x, const at::Tensor& actual, double expected) {
  const double given = actual.item<double>();
  if (given != expected) x.mul_(given / expected);
}

// parts: the logarithm of the sum of exponentials relative to this rank's peak, and the logit of the label.
std::tuple<at::Tensor, at::Tensor> cross_entropy_parts(const at::Tensor& given, const at::Tensor& labels) {
  const at::Tensor logits = exact_logits(given);
  const int64_t rows = labels.numel(), classes = logits.size(-1);
  const at::Tensor peaks = at::empty({rows}, logits.options()),
                   parts = at::empty({2, rows}, logits.options());
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy_parts", [&] {
    const scalar_t none = -std::numeric_limits<scalar_t>::infinity();
    std::vector<kernels::RowNormaliser<scalar_t>> normalisers(static_cast<size_t>(rows), {none, 0});
    if (classes > 0)
      kernels::cross_entropy_forward<scalar_t>(rows_of(logits, labels), logits.const_data_ptr<scalar_t>(),
                                               normalisers.data());
    const int64_t* const label = labels.const_data_ptr<int64_t>();
    scalar_t* const peak = peaks.mutable_data_ptr<scalar_t>();
    scalar_t* const part = parts.mutable_data_ptr<scalar_t>();
    for (int64_t row = 0; row < rows; ++row) {
      peak[row] = normalisers[static_cast<size_t>(row)].peak;
      part[row] = normalisers[static_cast<size_t>(row)].log_sum;
      part[rows + row] =
          label[row] >= 0 ? logits.const_data_ptr<scalar_t>()[row * classes + label[row]] : scalar_t{0};
    }
  });
  return {peaks, parts};
}

void cross_entropy_rebase(at::Tensor parts, const at::Tensor& labels, const at::Tensor& peaks,
                          const at::Tensor& all) {
  const int64_t rows = labels.numel();
  const int64_t* const label = labels.const_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES(parts.scalar_type(), "cross_entropy_rebase", [&] {
    const scalar_t *const largest = peaks.const_data_ptr<scalar_t>(), *const peak =
                                                                          all.const_data_ptr<scalar_t>();
    scalar_t *const exponentials = parts.mutable_data_ptr<scalar_t>(), *const own = exponentials + rows;
    for (int64_t row = 0; row < rows; ++row) {
      exponentials[row] = label[row] != -1 ? std::exp(largest[row] - peak[row] + exponentials[row]) : 0;
      own[row] = label[row] >= 0 ? own[row] - peak[row] : 0;
    }
  });
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_finish(const at::Tensor& parts, const at::Tensor& labels,
                                                        const at::Tensor& all) {
  const int64_t rows = labels.numel();
  const int64_t* const label = labels.const_data_ptr<int64_t>();
  const at::Tensor normalisers = at::empty({rows, 2}, parts.options());
  double sum = 0;
  AT_DISPATCH_FLOATING_TYPES(parts.scalar_type(), "cross_entropy_finish", [&] {
    const scalar_t *const exponentials = parts.const_data_ptr<scalar_t>(), *const own = exponentials + rows,
                          *const peak = all.const_data_ptr<scalar_t>();
    kernels::RowNormaliser<scalar_t>* const found = normalisers_in<scalar_t>(normalisers);
    for (int64_t row = 0; row < rows; ++row) {
      if (label[row] == -1) {
        found[row] = {0, 0};
        continue;
      }
      found[row] = {peak[row], std::log(exponentials[row])};
      sum += static_cast<double>(found[row].log_sum) - own[row];
    }
  });
  return {at::scalar_tensor(sum, parts.options()), normalisers};
}

TORCH_LIBRARY_IMPL(weft, CPU, library) {
  using namespace operators;
  implement<RmsNorm>(library, rms_norm);
  implement<RmsNormBackward>(library, rms_norm_backward);
  implement<LayerNorm>(library, layer_norm);
  implement<LayerNormBackward>(library, layer_norm_backward);
  implement<Gated>(library, gated);
  implement<GatedBackward>(library, gated_backward);
  implement<Rotate>(library, rotate);
  implement<ColumnSums>(library, column_sums);
  implement<GeluBackward>(library, gelu_backward);
  implement<Dropout>(library, dropout);
  implement<DropoutBackward>(library, dropout_backward);
  implement<Bernoulli>(library, bernoulli);
  implement<CrossEntropy>(library, cross_entropy);
  implement<CrossEntropyBackward>(library, cross_entropy_backward);
  implement<CrossEntropyWithGradient>(library, cross_entropy_with_gradient);
  implement<Rescale>(library, rescale);
  implement<CrossEntropyParts>(library, cross_entropy_parts);
  implement<CrossEntropyRebase>(library, cross_entropy_rebase);
  implement<CrossEntropyFinish>(library, cross_entropy_finish);
  implement<MergeAttention>(library, merge_by_operations);
}

// The shapes alone: `weft plan` runs models on the meta device to measure their activations.
TORCH_LIBRARY_IMPL(weft, Meta, library) {
  operators::implement<operators::RmsNorm>(library, rms_norm_shapes);
  operators::implement<operators::Gated>(library, gated_shape);
  operators::implement<operators::MergeAttention>(library, merge_by_operations);
}

}  // namespace

}  // namespace weft
