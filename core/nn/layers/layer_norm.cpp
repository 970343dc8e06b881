#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <c10/core/GradMode.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "layers/added_gradient.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes the plain form. Like libtorch, it computes half precision in fp32 and rounds at the end. `weight`
// and `bias` may be undefined.
at::Tensor composed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  const at::ScalarType exact = at::toOpMathType(x.scalar_type());
  const at::Tensor centred = x.to(exact) - x.to(exact).mean(-1, true);
  const at::Tensor scale = at::rsqrt(centred.square().mean(-1, true) + epsilon);
  const at::Tensor normed = centred * scale;
  if (!weight.defined()) return normed.to(x.scalar_type());
  return (normed * weight.to(exact) + bias.to(exact)).to(x.scalar_type());
}

// Weft's kernels of devices: one pass each way. On the CPU and in estimates libtorch's stand for them. With
// `branches` it also returns x, whose gradient it adds to that of the norm.
class FusedLayerNorm : public torch::autograd::Function<FusedLayerNorm> {
 public:
  static bool takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return !device::is_on_host(x) && !x.is_meta() && has_type(x.scalar_type()) && weight.defined() &&
           bias.defined() && weight.scalar_type() == x.scalar_type() &&
           bias.scalar_type() == x.scalar_type() && has_layer_kernel<operators::LayerNorm>(x);
  }

  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, double epsilon, bool branches) {
    const auto [y, mean, scale] = call<operators::LayerNorm>(x, weight, bias, epsilon);
    context->save_for_backward({x, weight, mean, scale});
    context->set_materialize_grads(false);
    return branches ? variable_list{y, x} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("layer norm");
    const at::Tensor &dy = gradients[0], residual = gradients.size() > 1 ? gradients[1] : at::Tensor();
    if (!dy.defined()) return {residual, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
    const variable_list saved = context->get_saved_variables();
    const std::array<bool, 2> wanted = {context->needs_input_grad(0),
                                        context->needs_input_grad(1) || context->needs_input_grad(2)};
    const auto [dx, dweight, dbias] = call<operators::LayerNormBackward>(
        dy.contiguous(), saved[0], saved[1], saved[2], saved[3], added_gradient(residual), wanted);
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

LayerNorm::LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype, bool affine) : epsilon(epsilon) {
  if (!affine) return;
  const auto on_meta = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, on_meta));
  bias = register_parameter("bias", at::empty({channels}, on_meta));
}

std::pair<at::Tensor, at::Tensor> LayerNorm::parameters_in_use() const {
  if (!operation || !weight.defined()) return {weight, bias};
  return {operation->parameter(weight), operation->parameter(bias)};
}

Branch LayerNorm::branch(const at::Tensor& x) const {
  if (!at::GradMode::is_enabled() || !fused || device::is_on_host(x)) return {x, (*this)(x)};
  const auto [w, b] = parameters_in_use();
  if (!FusedLayerNorm::takes(x, w, b)) return {x, (*this)(x)};
  const variable_list both = FusedLayerNorm::apply(x.contiguous(), w, b, epsilon, /*branches=*/true);
  return {both[1], both[0]};
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  const auto [w, b] = parameters_in_use();
  if (!fused) return composed(x, w, b, epsilon);
  if (FusedLayerNorm::takes(x, w, b)) {
    if (at::GradMode::is_enabled())
      return FusedLayerNorm::apply(x.contiguous(), w, b, epsilon, /*branches=*/false)[0];
    return std::get<0>(call<operators::LayerNorm>(x.contiguous(), w, b, epsilon));
  }
  return at::layer_norm(x, x.sizes().slice(x.dim() - 1), w, b, epsilon);
}

}  // namespace weft::nn
