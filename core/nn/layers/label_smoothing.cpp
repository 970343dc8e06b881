#include "layers/label_smoothing.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/world.hpp"

namespace weft::nn {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

// The place of each row's label among these classes, and whether it is there.
struct Own {
  at::Tensor place, here, counts;  // (rows, 1)

  Own(const at::Tensor& labels, int64_t ignored, int64_t begin, int64_t classes) {
    const at::Tensor local = labels.reshape({-1, 1}).sub(begin);
    counts = labels.reshape({-1, 1}).ne(ignored);
    here = counts.logical_and(local.ge(0)).logical_and_(local.lt(classes));
    place = local.clamp(0, std::max<int64_t>(classes - 1, 0));
  }
};

class LabelLessMean : public torch::autograd::Function<LabelLessMean> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                            int64_t ignored, int64_t begin, int64_t classes, const Communicator* ranks) {
    const at::Tensor rows = logits.reshape({-1, logits.size(-1)});
    const Own own(labels, ignored, begin, rows.size(-1));
    const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor sum = rows.sum(-1, true, dtype)
                         .masked_fill(own.counts.logical_not(), 0)
                         .sum()
                         .neg()
                         .div(static_cast<double>(classes));
    if (rows.size(-1) > 0)
      sum = sum + rows.gather(1, own.place).to(dtype).masked_fill(own.here.logical_not(), 0).sum();
    if (ranks != nullptr) ranks->all_reduce(sum).wait();
    context->save_for_backward({labels});
    context->saved_data["numbers"] = std::vector<int64_t>{ignored, begin, classes};
    context->saved_data["shape"] = logits.sizes().vec();
    context->saved_data["dtype"] = static_cast<int64_t>(logits.scalar_type());
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("label smoothing");
    const std::vector<int64_t> numbers = context->saved_data["numbers"].toIntVector();
    const std::vector<int64_t> shape = context->saved_data["shape"].toIntVector();
    const Own own(context->get_saved_variables()[0], numbers[0], numbers[1], shape.back());
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const at::Tensor gradient = gradients[0].to(dtype);
    at::Tensor rows = own.counts.to(dtype)
                          .mul(-1.0 / static_cast<double>(numbers[2]))
                          .expand({own.counts.size(0), shape.back()})
                          .contiguous();
    if (shape.back() > 0) rows.scatter_add_(1, own.place, own.here.to(dtype));
    return {rows.mul_(gradient).reshape(shape), {}, {}, {}, {}, {}};
  }
};

}  // namespace

double label_smoothing() {
  RunningUnit* const running = RunningUnit::find();
  return running == nullptr ? 0 : running->context().label_smoothing();
}

at::Tensor label_less_mean(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored, int64_t begin,
                           int64_t classes, const Communicator* ranks) {
  return LabelLessMean::apply(logits, labels.to(logits.device()), ignored, begin, classes, ranks);
}

}  // namespace weft::nn
