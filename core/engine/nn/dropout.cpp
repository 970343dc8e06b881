#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <torch/csrc/autograd/custom_function.h>

#include "cpu/dropout.hpp"
#include "device/tensors.hpp"
#include "nn/with_type.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

bool takes(const at::Tensor& x) {
  return device::is_on_host(x) && has_type(x.scalar_type());
}

// Saves one byte per element for backward.
class FusedDropout : public torch::autograd::Function<FusedDropout> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const std::optional<at::Tensor>& residual, const at::Tensor& x,
                            const at::Tensor& mask, double scale) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    context->saved_data["adds"] = residual.has_value();
    return run(residual.value_or(at::Tensor()), x, mask, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor& dy = gradients[0];
    const at::Tensor mask = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    torch::autograd::variable_list result(4);
    if (context->saved_data["adds"].toBool()) result[0] = dy;
    result[1] = at::GradMode::is_enabled() ? dy * (mask.to(dy.scalar_type()) * scale)
                                           : run({}, dy.contiguous(), mask, scale);
    return result;
  }

 private:
  static at::Tensor run(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& mask,
                        double scale) {
    const at::Tensor y = at::empty_like(x);
    with_type(x.scalar_type(), [&]<typename T>(T) {
      kernels::dropout<T>(x.numel(), residual.defined() ? residual.const_data_ptr<T>() : nullptr,
                          x.const_data_ptr<T>(), mask.const_data_ptr<uint8_t>(),
                          static_cast<kernels::Exact<T>>(scale), y.mutable_data_ptr<T>());
    });
    return y;
  }
};

}  // namespace

// Draws the mask with Weft's generator. libtorch draws 64 bits for each element, one after the other, which
// takes many times as long as the rest of the layer.
at::Tensor Dropout::mask(at::IntArrayRef shape) const {
  const at::Tensor mask = at::empty(shape, at::kByte);
  kernels::bernoulli(mask.numel(), drawn_seed(random_stream), 1 - probability,
                     mask.mutable_data_ptr<uint8_t>());
  return mask;
}

double Dropout::scale() const {
  return probability < 1 ? 1 / (1 - probability) : 0;
}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  if (!drops()) return x;
  const at::Tensor mask = this->mask(x.sizes()).to(x.device());
  return fused && takes(x) ? FusedDropout::apply(std::nullopt, x.contiguous(), mask, scale())
                           : x * (mask.to(x.scalar_type()) * scale());
}

at::Tensor Dropout::added(const at::Tensor& residual, const at::Tensor& x) const {
  const bool alike = residual.sizes() == x.sizes() && residual.scalar_type() == x.scalar_type();
  if (!drops() || !fused || !takes(x) || !device::is_on_host(residual) || !alike)
    return residual + (*this)(x);
  return FusedDropout::apply(residual.contiguous(), x.contiguous(), mask(x.sizes()), scale());
}

}  // namespace weft::nn
