#include "weft/nn/rms_norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <c10/core/GradMode.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "layers/added_gradient.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the input and one number per row. With `branches` it also returns x, whose gradient it adds to that
// of the norm.
class FusedRmsNorm : public torch::autograd::Function<FusedRmsNorm> {
 public:
  static bool takes(const at::Tensor& x, const at::Tensor& weight) {
    return has_type(x.scalar_type()) && weight.scalar_type() == x.scalar_type() &&
           has_layer_kernel<operators::RmsNorm>(x);
  }

  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                               double epsilon, bool branches) {
    const auto [y, scale] = call<operators::RmsNorm>(x, weight, epsilon);
    context->save_for_backward({x, weight, scale});
    context->set_materialize_grads(false);
    return branches ? variable_list{y, x} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("RMS norm");
    const at::Tensor &dy = gradients[0], residual = gradients.size() > 1 ? gradients[1] : at::Tensor();
    if (!dy.defined()) return {residual, at::Tensor(), at::Tensor(), at::Tensor()};
    const variable_list saved = context->get_saved_variables();
    const std::array<bool, 2> wanted = {context->needs_input_grad(0), context->needs_input_grad(1)};
    const auto [dx, dweight] = call<operators::RmsNormBackward>(dy.contiguous(), saved[0], saved[1], saved[2],
                                                                added_gradient(residual), wanted);
    return {dx, dweight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RmsNorm::RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, options));
}

Branch RmsNorm::branch(const at::Tensor& x) const {
  const at::Tensor weight = operation ? operation->parameter(this->weight) : this->weight;
  if (!at::GradMode::is_enabled() || !fused || !FusedRmsNorm::takes(x, weight)) return {x, (*this)(x)};
  const variable_list both = FusedRmsNorm::apply(x.contiguous(), weight, epsilon, /*branches=*/true);
  return {both[1], both[0]};
}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor weight = operation ? operation->parameter(this->weight) : this->weight;
  if (fused && FusedRmsNorm::takes(x, weight)) {
    if (at::GradMode::is_enabled())
      return FusedRmsNorm::apply(x.contiguous(), weight, epsilon, /*branches=*/false)[0];
    return std::get<0>(call<operators::RmsNorm>(x.contiguous(), weight, epsilon));
  }
  const at::Tensor exact = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  const at::Tensor scale = at::rsqrt(exact.square().mean(-1, true) + epsilon);
  // A residual stream may be wider than a half-precision norm and the layers behind it.
  const bool half = at::isReducedFloatingType(weight.scalar_type());
  return weight * (exact * scale).to((half ? weight : x).scalar_type());
}

}  // namespace weft::nn
