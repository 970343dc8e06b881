#include "streams/vocabulary_loss.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "cpu/cross_entropy.hpp"
#include "dispatch/operators.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/label_smoothing.hpp"

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

constexpr int64_t kNoClass = std::numeric_limits<int64_t>::max();

// Returns the largest logit of each row and its class among these, the first one of several. A rank without
// classes has logits that are less than all others.
std::pair<at::Tensor, at::Tensor> largest_of(const at::Tensor& logits) {
  if (logits.size(-1) > 0) {
    const auto [peaks, classes] = logits.max(-1);
    return {peaks.contiguous(), classes};
  }
  const at::IntArrayRef rows = logits.sizes().slice(0, logits.dim() - 1);
  return {at::full(rows, -std::numeric_limits<double>::infinity(), logits.options()),
          at::zeros(rows, logits.options().dtype(at::kLong))};
}

class VocabularyCrossEntropy : public torch::autograd::Function<VocabularyCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                            const Communicator* ranks) {
    const auto [peaks, parts] = call<operators::CrossEntropyParts>(logits, labels);
    const at::Tensor all = peaks.clone();
    ranks->all_reduce(all, ReduceOp::kMax).wait();
    call<operators::CrossEntropyRebase>(parts, labels, peaks, all);
    ranks->all_reduce(parts).wait();
    const auto [sum, normalisers] = call<operators::CrossEntropyFinish>(parts, labels, all);
    context->save_for_backward({logits, labels, normalisers});
    return sum;
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
  // Where the device has no kernel, the host computes.
  const at::Tensor here =
      has_layer_kernel<operators::CrossEntropyParts>(logits) ? logits : device::on_host(logits);
  // The host's kernel takes no half precision.
  const bool converts = device::is_on_host(here) && at::isReducedFloatingType(here.scalar_type());
  const at::Tensor exact = nn::logits_by_row(converts ? here.to(at::kFloat) : here);
  const at::Tensor local = local_labels(labels.to(here.device()), ignored, begin, logits.size(-1));
  const double smoothing = nn::label_smoothing();
  at::Tensor more;
  if (smoothing > 0) more = nn::label_less_mean(exact, labels, ignored, begin, classes, &ranks);
  const at::Tensor sum = VocabularyCrossEntropy::apply(exact, local, &ranks).to(logits.device());
  return more.defined() ? sum + smoothing * more.to(sum.options()) : sum;
}

double vocabulary_count_right(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                              int64_t begin, const Communicator& ranks) {
  const auto [peaks, classes] = largest_of(logits.detach());
  const at::Tensor all = peaks.clone();
  ranks.all_reduce(all, ReduceOp::kMax).wait();
  // Among ranks with the same largest logit the one of the first class counts.
  const at::Tensor first = classes.add(begin).masked_fill_(peaks.ne(all), kNoClass);
  ranks.all_reduce(first, ReduceOp::kMin).wait();
  const at::Tensor own = labels.to(logits.device());
  return device::value_of<double>(first.eq(own).logical_and_(own.ne(ignored)).sum());
}

}  // namespace weft::parallel
