#include "weft/nn/rms_norm.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>

#include <torch/csrc/autograd/custom_function.h>

#include "base/text.hpp"
#include "cpu/rms_norm.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Keeps the input and one number a row; without memory (meta) it tells their shapes.
class FusedRmsNorm : public torch::autograd::Function<FusedRmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const int64_t channels = x.size(-1), rows = x.numel() / channels;
    const at::Tensor y = at::empty_like(x), scale = at::empty({rows}, x.options());
    if (!x.is_meta()) {
      kernels::rms_norm_forward(rows, channels, static_cast<float>(epsilon), x.const_data_ptr<float>(),
                                weight.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                                scale.mutable_data_ptr<float>());
    }
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      fail(WEFT_UNIMPLEMENTED,
           "RMS norm: a gradient of its gradient was asked for (create_graph), which it has not");
    }
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2], dy = gradients[0].contiguous();
    const int64_t channels = x.size(-1), rows = x.numel() / channels;
    variable_list result(3);
    if (context->needs_input_grad(0)) {
      result[0] = at::empty_like(x);
      kernels::rms_norm_backward(rows, channels, x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                                 scale.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                                 result[0].mutable_data_ptr<float>());
    }
    if (context->needs_input_grad(1)) {
      result[1] = at::empty_like(weight);
      kernels::rms_norm_weight_gradient(rows, channels, x.const_data_ptr<float>(),
                                        scale.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                                        result[1].mutable_data_ptr<float>());
    }
    return result;
  }
};

}  // namespace

RmsNorm::RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, options));
}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor weight = operation ? operation->parameter(this->weight) : this->weight;
  const bool fp32 = x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat;
  if (fp32 && (x.is_cpu() || x.is_meta())) return FusedRmsNorm::apply(x.contiguous(), weight, epsilon);
  const at::Tensor exact = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  const at::Tensor scale = at::rsqrt(exact.square().mean(-1, true) + epsilon);
  return weight * (exact * scale).to(x.scalar_type());
}

}  // namespace weft::nn
