#include "parallel/vocabulary_loss.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "device/tensors.hpp"
#include "nn/cross_entropy.hpp"

namespace weft::parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns the labels relative to this rank's first class: kElsewhere for a class of another rank, -1 for
// ignored labels.
at::Tensor local_labels(const at::Tensor& labels, int64_t ignored, int64_t begin, int64_t count) {
  const at::Tensor local = labels.sub(begin);
  const at::Tensor here = local.ge(0).logical_and_(local.lt(count));
  return local.masked_fill_(here.logical_not(), kernels::kElsewhere)
      .masked_fill_(labels.eq(ignored), -1)
      .contiguous();
}

// Returns the loss summed over all rows. All tensors are on the host. Fills `pairs` (rows, 2) with the
// normalizer of each row, for backward.
template <typename T>
at::Tensor sum_of_rows(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& pairs,
                       const Communicator& ranks) {
  const int64_t rows = labels.numel(), classes = logits.size(-1);
  const int64_t* const label = labels.const_data_ptr<int64_t>();
  kernels::RowNormaliser<T>* const normalisers = nn::normalisers_in<T>(pairs);
  const T none = -std::numeric_limits<T>::infinity();
  std::fill_n(normalisers, rows, kernels::RowNormaliser<T>{none, 0});
  if (classes > 0)
    kernels::cross_entropy_forward<T>({rows, classes, label}, logits.const_data_ptr<T>(), normalisers);
  const at::Tensor peaks = pairs.select(1, 0).clone();
  ranks.all_reduce(peaks, ReduceOp::kMax).wait();
  const T* const peak = peaks.const_data_ptr<T>();
  const at::Tensor sums =
      at::empty({2, rows}, logits.options());  // sums of exponentials, logits of the labels
  T *const exponentials = sums.mutable_data_ptr<T>(), *const own = exponentials + rows;
  for (int64_t row = 0; row < rows; ++row) {
    const bool counts = label[row] != -1;
    const auto& [largest, log_sum] = normalisers[row];
    exponentials[row] = counts ? std::exp(largest - peak[row] + log_sum) : 0;
    own[row] = label[row] >= 0 ? logits.const_data_ptr<T>()[row * classes + label[row]] - peak[row] : 0;
  }
  ranks.all_reduce(sums).wait();
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (label[row] == -1) continue;
    normalisers[row] = {peak[row], std::log(exponentials[row])};
    sum += static_cast<double>(normalisers[row].log_sum) - own[row];
  }
  return at::scalar_tensor(sum, logits.options());
}

class VocabularyCrossEntropy : public torch::autograd::Function<VocabularyCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                            const std::function<at::Tensor(const at::Tensor& pairs)>& sum) {
    const at::Tensor pairs = at::empty({labels.numel(), 2}, logits.options());
    const at::Tensor result = sum(pairs);
    context->save_for_backward({logits, labels, pairs});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {nn::cross_entropy_gradient(saved[0], saved[1], saved[2], gradients[0]), {}, {}};
  }
};

}  // namespace

at::Tensor vocabulary_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                                        int64_t begin, int64_t classes, const Communicator& ranks) {
  nn::check_labels(logits, labels, classes, ignored);
  const at::Tensor here = device::on_host(logits);
  const at::Tensor exact =
      (at::isReducedFloatingType(here.scalar_type()) ? here.to(at::kFloat) : here).contiguous();
  const at::Tensor local = local_labels(device::on_host(labels), ignored, begin, logits.size(-1));
  const at::Tensor sum = AT_DISPATCH_FLOATING_TYPES(exact.scalar_type(), "vocabulary_cross_entropy", [&] {
    return VocabularyCrossEntropy::apply(exact, local, [&](const at::Tensor& pairs) {
      return sum_of_rows<scalar_t>(exact, local, pairs, ranks);
    });
  });
  return sum.to(logits.device());
}

}  // namespace weft::parallel
