#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <c10/core/GradMode.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
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

// Weft's kernels of devices: one pass each way. On the CPU and in estimates libtorch's stand for them.
class FusedLayerNorm : public torch::autograd::Function<FusedLayerNorm> {
 public:
  static bool takes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return !device::is_on_host(x) && !x.is_meta() && has_type(x.scalar_type()) && weight.defined() &&
           bias.defined() && weight.scalar_type() == x.scalar_type() &&
           bias.scalar_type() == x.scalar_type() && has_layer_kernel<operators::LayerNorm>(x);
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double epsilon) {
    const auto [y, mean, scale] = call<operators::LayerNorm>(x, weight, bias, epsilon);
    context->save_for_backward({x, weight, mean, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("layer norm");
    const variable_list saved = context->get_saved_variables();
    const std::array<bool, 2> wanted = {context->needs_input_grad(0),
                                        context->needs_input_grad(1) || context->needs_input_grad(2)};
    const auto [dx, dweight, dbias] = call<operators::LayerNormBackward>(
        gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], wanted);
    return {dx, dweight, dbias, at::Tensor()};
  }
};

}  // namespace

LayerNorm::LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype, bool affine) : epsilon(epsilon) {
  if (!affine) return;
  const auto on_meta = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, on_meta));
  bias = register_parameter("bias", at::empty({channels}, on_meta));
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  const bool replaced = operation && weight.defined();
  const at::Tensor w = replaced ? operation->parameter(weight) : weight,
                   b = replaced ? operation->parameter(bias) : bias;
  if (!fused) return composed(x, w, b, epsilon);
  if (FusedLayerNorm::takes(x, w, b)) {
    if (at::GradMode::is_enabled()) return FusedLayerNorm::apply(x.contiguous(), w, b, epsilon);
    return std::get<0>(call<operators::LayerNorm>(x.contiguous(), w, b, epsilon));
  }
  return at::layer_norm(x, x.sizes().slice(x.dim() - 1), w, b, epsilon);
}

}  // namespace weft::nn
