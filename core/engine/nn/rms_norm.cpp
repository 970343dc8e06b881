#include "weft/nn/rms_norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <c10/core/GradMode.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the input and one number per row.
class FusedRmsNorm : public torch::autograd::Function<FusedRmsNorm> {
 public:
  static bool takes(const at::Tensor& x, const at::Tensor& weight) {
    return has_type(x.scalar_type()) && weight.scalar_type() == x.scalar_type() &&
           has_layer_kernel<operators::RmsNorm>(x);
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const auto [y, scale] = call<operators::RmsNorm>(x, weight, epsilon);
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("RMS norm");
    const variable_list saved = context->get_saved_variables();
    const std::array<bool, 2> wanted = {context->needs_input_grad(0), context->needs_input_grad(1)};
    const auto [dx, dweight] =
        call<operators::RmsNormBackward>(gradients[0].contiguous(), saved[0], saved[1], saved[2], wanted);
    return {dx, dweight, at::Tensor()};
  }
};

}  // namespace

RmsNorm::RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, options));
}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor weight = operation ? operation->parameter(this->weight) : this->weight;
  if (fused && FusedRmsNorm::takes(x, weight)) {
    if (at::GradMode::is_enabled()) return FusedRmsNorm::apply(x.contiguous(), weight, epsilon);
    return std::get<0>(call<operators::RmsNorm>(x.contiguous(), weight, epsilon));
  }
  const at::Tensor exact = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  const at::Tensor scale = at::rsqrt(exact.square().mean(-1, true) + epsilon);
  return weight * (exact * scale).to(x.scalar_type());
}

}  // namespace weft::nn
