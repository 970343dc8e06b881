// GELU of a linear layer, whose bias gets its gradient from the kernel of GELU's.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "autograd/first_order.hpp"
#include "device/autocast.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "layers/gelu.hpp"
#include "layers/linear.hpp"

namespace weft::nn {

namespace {

using torch::autograd::variable_list;

// Saves what the layer and GELU on their own save.
class GeluOfLinear : public torch::autograd::Function<GeluOfLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w, const at::Tensor& b, Linear::Layout layout,
                            kernels::Gelu kind) {
    const at::Tensor inner = linear(x, w, b, layout);
    context->save_for_backward({x, w, inner});
    context->saved_data["layout"] = static_cast<int64_t>(layout);
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    context->set_materialize_grads(false);
    return gelu(kind)(inner);
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    require_first_order("gelu");
    variable_list result(5);
    if (!gradients[0].defined()) return result;
    const variable_list saved = context->get_saved_variables();
    const auto layout = static_cast<Linear::Layout>(context->saved_data["layout"].toInt());
    const at::Tensor& inner = saved[2];
    const auto rows = [&](const at::Tensor& all) { return all.reshape({-1, inner.size(-1)}); };
    const auto [flat, db] = call<operators::GeluBackward>(rows(gradients[0].contiguous()), rows(inner),
                                                          context->saved_data["kind"].toInt());
    const at::Tensor dy = flat.view(inner.sizes());
    if (context->needs_input_grad(0)) result[0] = linear_input_gradient(dy, saved[1], layout);
    if (context->needs_input_grad(1)) result[1] = linear_weight_gradient(dy, saved[0], layout);
    if (context->needs_input_grad(2)) result[2] = db;
    return result;
  }
};

// Where libtorch's kernels of fp32 stand for Weft's, nothing is gained.
bool takes(const Linear& layer, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || device::is_on_host(x) || x.is_meta() || !layer.bias.defined() ||
      !layer.bias.requires_grad())
    return false;
  const at::Tensor of_x = device::autocast(x);
  return at::isReducedFloatingType(of_x.scalar_type()) && has_type(of_x.scalar_type()) &&
         has_layer_kernel<operators::GeluBackward>(of_x) && is_plain(layer, x);
}

}  // namespace

at::Tensor Activation::of_linear(const Linear& layer, const at::Tensor& x) const {
  const std::optional<kernels::Gelu> kind = gelu_kind(function_);
  if (!fused || !kind || !takes(layer, x)) return (*this)(layer(x));
  return GeluOfLinear::apply(device::autocast(x), device::autocast(layer.weight),
                             device::autocast(layer.bias), layer.layout, *kind);
}

}  // namespace weft::nn
