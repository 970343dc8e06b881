#include <ATen/core/Reduction.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/label_smoothing.hpp"
#include "layers/last_reader.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the logits and two numbers per row, but no probabilities.
class CrossEntropySum : public torch::autograd::Function<CrossEntropySum> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels) {
    const auto [sum, normalisers] = call<operators::CrossEntropy>(logits, labels);
    context->save_for_backward({logits, labels, normalisers});
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {cross_entropy_gradient(saved[0], saved[1], saved[2], gradients[0]), at::Tensor()};
  }
};

// Computes the gradient of the logits for the expected gradient of the sum over the logits themselves, while
// it reads them, and saves nothing else.
class CrossEntropyAtOnce : public torch::autograd::Function<CrossEntropyAtOnce> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                            double expected) {
    const at::Tensor gradient = logits.detach(),
                     sum = call<operators::CrossEntropyWithGradient>(gradient, labels, expected);
    context->saved_data["gradient"] = gradient;
    context->saved_data["expected"] = expected;
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("cross entropy");
    if (context->saved_data.empty())
      fail(WEFT_FAILED_PRECONDITION,
           "cross entropy: a second backward of a loss whose gradient was expected");
    const at::Tensor gradient = context->saved_data["gradient"].toTensor();
    call<operators::Rescale>(gradient, gradients[0], context->saved_data["expected"].toDouble());
    context->saved_data.clear();  // later nodes may overwrite it
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

void check_labels(const at::Tensor& logits, const at::Tensor& labels, int64_t classes, int64_t ignored) {
  const at::IntArrayRef rows = logits.sizes().slice(0, logits.dim() - 1);
  if (labels.sizes() != rows)
    fail(WEFT_INVALID_ARGUMENT, "cross entropy: labels have the shape [{}], but logits [{}] want [{}]",
         fmt::join(labels.sizes(), ", "), fmt::join(logits.sizes(), ", "), fmt::join(rows, ", "));
  check_ids(labels, classes, "cross entropy: labels", ignored);
  if (device::is_on_host(labels) || labels.is_meta()) return;
  // The kernels of devices count nothing for a label out of range. This one ends the process without a wait
  // of the host.
  at::_assert_async(labels.ge(0).logical_and_(labels.lt(classes)).logical_or_(labels.eq(ignored)).all(),
                    "cross entropy: a label is out of range");
}

at::Tensor logits_by_row(const at::Tensor& logits) {
  if (device::is_on_host(logits) || logits.dim() < 2 || logits.stride(-1) != 1) return logits.contiguous();
  for (int64_t d = logits.dim() - 3; d >= 0; --d)
    if (logits.stride(d) != logits.size(d + 1) * logits.stride(d + 1)) return logits.contiguous();
  return logits;
}

at::Tensor cross_entropy_gradient(const at::Tensor& logits, const at::Tensor& labels,
                                  const at::Tensor& normalisers, const at::Tensor& gradient) {
  require_first_order("cross entropy");
  const at::Tensor result =
      last_reader(logits) ? logits.detach() : at::empty(logits.sizes(), logits.options());
  call<operators::CrossEntropyBackward>(gradient, logits, labels, normalisers, result);
  return result;
}

namespace {

// Returns the cross entropy without smoothing.
at::Tensor hard_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& given, int64_t ignored,
                                  std::optional<double> gradient) {
  check_labels(logits, given, logits.size(-1), ignored);
  const at::Tensor labels = given.to(logits.device());
  const bool half = at::isReducedFloatingType(logits.scalar_type());
  // The host's kernel takes no half precision.
  const bool own_kernel = has_layer_kernel<operators::CrossEntropy>(logits) &&
                          (device::is_on_host(logits) ? !half : has_type(logits.scalar_type()));
  if (!own_kernel) {
    const at::Tensor exact = half ? logits.to(at::kFloat) : logits;
    return at::cross_entropy_loss(exact.reshape({-1, logits.size(-1)}), labels.reshape(-1), {},
                                  at::Reduction::Sum, ignored);
  }
  const bool ignored_is_a_class = ignored >= 0 && ignored < logits.size(-1);
  const at::Tensor counted = ignored_is_a_class ? labels.masked_fill(labels.eq(ignored), -1) : labels;
  const at::Tensor rows = logits_by_row(logits);
  const bool at_once = gradient && at::GradMode::is_enabled() && logits.requires_grad() &&
                       has_layer_kernel<operators::CrossEntropyWithGradient>(logits);
  if (!at_once) return CrossEntropySum::apply(rows, counted.contiguous());
  const double expected =
      logits.scalar_type() == at::kDouble ? *gradient : static_cast<double>(static_cast<float>(*gradient));
  return CrossEntropyAtOnce::apply(rows, counted.contiguous(), expected);
}

}  // namespace

at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                             std::optional<double> gradient) {
  const double smoothing = label_smoothing();
  if (smoothing == 0) return hard_cross_entropy_sum(logits, labels, ignored, gradient);
  const at::Tensor more = label_less_mean(logits, labels, ignored, 0, logits.size(-1));
  const at::Tensor sum = hard_cross_entropy_sum(logits, labels, ignored, std::nullopt);
  return sum + smoothing * more.to(sum.scalar_type());
}

at::Tensor RowLabels::cross_entropy(const at::Tensor& logits) const {
  const at::IntArrayRef rows = logits.sizes().slice(0, logits.dim() - 1);
  const at::Tensor given = labels.to(at::kLong);
  const bool fits = given.numel() == c10::multiply_integers(rows);
  const at::Tensor shaped = fits ? given.reshape(rows) : given;
  if (!weights.defined()) return cross_entropy_sum(logits, shaped, ignored);
  check_labels(logits, shaped, logits.size(-1), ignored);
  const bool half = at::isReducedFloatingType(logits.scalar_type());
  const at::Tensor exact = half ? logits.to(at::kFloat) : logits;
  const at::Tensor losses =
      at::cross_entropy_loss(exact.reshape({-1, logits.size(-1)}), shaped.to(logits.device()).reshape(-1), {},
                             at::Reduction::None, ignored, label_smoothing());
  return losses.mul(row_weights(exact.scalar_type()).to(logits.device()).reshape(-1)).sum();
}

at::Tensor RowLabels::row_weights(at::ScalarType dtype) const {
  const at::Tensor own = labels.to(at::kLong).reshape({weights.size(0), -1});
  return weights.to(dtype).gather(1, own.clamp(0, weights.size(1) - 1)).masked_fill(own.eq(ignored), 0);
}

double RowLabels::count() const {
  if (weights.defined()) return device::value_of<double>(row_weights(at::kFloat).sum(at::kDouble));
  if (!device::is_on_host(labels)) return device::value_of<double>(labels.ne(ignored).sum());
  const std::vector<int64_t> values = device::values_of<int64_t>(labels.to(at::kLong));  // cheaper for few
  return static_cast<double>(values.size()) -
         static_cast<double>(std::count(values.begin(), values.end(), ignored));
}

Metric RowLabels::accuracy(const at::Tensor& logits) const {
  const at::Tensor flat = labels.reshape(-1).to(logits.device());
  const at::Tensor found = logits.reshape({flat.numel(), logits.size(-1)}).argmax(-1);
  const at::Tensor right = found.eq(flat).logical_and(flat.ne(ignored)).sum();
  return {"accuracy", device::value_of<double>(right), RowLabels{labels, ignored}.count()};
}

Metric RowLabels::classes(const at::Tensor& logits) const {
  const int64_t classes = logits.size(-1), rows = labels.numel();
  const std::vector<int64_t> wanted = device::values_of<int64_t>(labels.reshape(-1).to(at::kLong)),
                             found = device::values_of<int64_t>(logits.reshape({rows, classes}).argmax(-1));
  std::vector<double> sums(static_cast<size_t>(3 * classes));
  for (size_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row] == ignored) continue;
    sums[static_cast<size_t>(3 * wanted[row])] += found[row] == wanted[row] ? 1 : 0;
    sums[static_cast<size_t>(3 * found[row] + 1)] += 1;
    sums[static_cast<size_t>(3 * wanted[row] + 2)] += 1;
  }
  return {"classes", Metric::Kind::kClasses, std::move(sums)};
}

}  // namespace weft::nn
