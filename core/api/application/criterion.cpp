// A loss that a C program computes, as a node of the autograd graph.
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include "application/handles.hpp"
#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::application {

namespace {

// Returns `loss`, whose backward gives each of the outputs its gradient. The lists must be TensorList:
// autograd takes no inputs out of a std::vector. The loss is fp64 because a scaled one would overflow fp16.
struct GivenGradients : torch::autograd::Function<GivenGradients> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList /*outputs*/,
                            at::TensorList gradients, double loss) {
    context->save_for_backward(gradients.vec());
    return at::full({}, loss, at::kDouble);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    torch::autograd::variable_list result;
    for (const at::Tensor& gradient : context->get_saved_variables())
      result.push_back(gradient * grad.front());
    result.resize(2 * result.size() + 1);  // none of the given gradients and of `loss`
    return result;
  }
};

// Returns the fields as C has them: in host memory.
std::vector<weft_field> fields_of(const State& state, std::vector<weft_tensor>& boxes) {
  boxes.clear();
  boxes.reserve(state.size());
  std::vector<weft_field> fields;
  for (const auto& [name, tensor] : state) {
    boxes.push_back({device::on_host(tensor.detach()).contiguous()});
    fields.push_back({borrow(name), &boxes.back()});
  }
  return fields;
}

}  // namespace

Criterion criterion_of(const weft_criterion& criterion) {
  require_size("weft_booster_boost: the criterion", criterion.struct_size, WEFT_END_OF(weft_criterion, loss));
  require(reinterpret_cast<const void*>(criterion.loss), "weft_booster_boost", "criterion->loss");
  return [loss_function = criterion.loss, context = criterion.context](const State& outputs,
                                                                       const Batch& batch) {
    std::vector<weft_tensor> output_boxes, batch_boxes;
    const std::vector<weft_field> output_fields = fields_of(outputs, output_boxes),
                                  batch_fields = fields_of(batch, batch_boxes);
    std::vector<weft_tensor*> raw(outputs.size(), nullptr);
    double loss = 0;
    const weft_loss_arguments arguments = {.struct_size = sizeof(weft_loss_arguments),
                                           .outputs = {output_fields.data(), output_fields.size()},
                                           .batch = {batch_fields.data(), batch_fields.size()},
                                           .loss = &loss,
                                           .gradients = raw.data()};
    ErrorSink error;
    const weft_status status = loss_function(context, &arguments, error);
    const std::vector<std::unique_ptr<weft_tensor>> given(raw.begin(), raw.end());
    error.check(status, "criterion");
    std::vector<at::Tensor> with_gradient, gradients;
    size_t i = 0;
    for (const auto& [name, tensor] : outputs) {
      const weft_tensor* const gradient = given[i++].get();
      if (gradient == nullptr) continue;
      if (gradient->tensor.sizes() != tensor.sizes() ||
          gradient->tensor.scalar_type() != tensor.scalar_type())
        fail(WEFT_INVALID_ARGUMENT, "criterion: the gradient of \"{}\" must have its shape and dtype", name);
      with_gradient.push_back(tensor);
      gradients.push_back(gradient->tensor.to(tensor.device()));
    }
    if (with_gradient.empty()) fail(WEFT_INVALID_ARGUMENT, "criterion: no gradient was given for any output");
    return GivenGradients::apply(at::TensorList(with_gradient), at::TensorList(gradients), loss);
  };
}

}  // namespace weft::application
