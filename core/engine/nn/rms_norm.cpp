#include "weft/nn/rms_norm.hpp"

#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "cpu/rms_norm.hpp"
#include "device/tensors.hpp"
#include "nn/with_type.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the input and one number per row. On the meta device it only makes tensors of those shapes.
class FusedRmsNorm : public torch::autograd::Function<FusedRmsNorm> {
 public:
  static bool takes(const at::Tensor& x, const at::Tensor& weight) {
    return has_type(x.scalar_type()) && weight.scalar_type() == x.scalar_type() &&
           (device::is_on_host(x) || x.is_meta());
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const int64_t channels = x.size(-1), rows = x.numel() / channels;
    const at::Tensor y = at::empty_like(x), scale = at::empty({rows}, exact(x));
    if (!x.is_meta()) {
      with_type(x.scalar_type(), [&]<typename T>(T) {
        using Exact = kernels::Exact<T>;
        kernels::rms_norm_forward<T>(rows, channels, static_cast<Exact>(epsilon), x.const_data_ptr<T>(),
                                     weight.const_data_ptr<T>(), y.mutable_data_ptr<T>(),
                                     scale.mutable_data_ptr<Exact>());
      });
    }
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("RMS norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2], dy = gradients[0].contiguous();
    const int64_t channels = x.size(-1), rows = x.numel() / channels;
    variable_list result(3);
    with_type(x.scalar_type(), [&]<typename T>(T) {
      using Exact = kernels::Exact<T>;
      if (context->needs_input_grad(0)) {
        result[0] = at::empty_like(x);
        kernels::rms_norm_backward<T>(rows, channels, x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                                      scale.const_data_ptr<Exact>(), dy.const_data_ptr<T>(),
                                      result[0].mutable_data_ptr<T>());
      }
      if (context->needs_input_grad(1)) {
        const at::Tensor sums = at::empty({channels}, exact(x));
        kernels::rms_norm_weight_gradient<T>(rows, channels, x.const_data_ptr<T>(),
                                             scale.const_data_ptr<Exact>(), dy.const_data_ptr<T>(),
                                             sums.mutable_data_ptr<Exact>());
        result[1] = sums.to(x.scalar_type());
      }
    });
    return result;
  }

 private:
  static at::TensorOptions exact(const at::Tensor& x) {
    return x.options().dtype(at::toOpMathType(x.scalar_type()));
  }
};

}  // namespace

RmsNorm::RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, options));
}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  const at::Tensor weight = operation ? operation->parameter(this->weight) : this->weight;
  if (fused && FusedRmsNorm::takes(x, weight)) return FusedRmsNorm::apply(x.contiguous(), weight, epsilon);
  const at::Tensor exact = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  const at::Tensor scale = at::rsqrt(exact.square().mean(-1, true) + epsilon);
  return weight * (exact * scale).to(x.scalar_type());
}

}  // namespace weft::nn
