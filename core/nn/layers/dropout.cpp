#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "weft/nn/drop_path.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

bool takes(const at::Tensor& x) {
  return has_type(x.scalar_type()) && has_layer_kernel<operators::Dropout>(x);
}

// Draws the mask with Weft's generator, whose numbers are the same on every device. libtorch draws 64 bits
// for each element, one after the other, which takes many times as long as the rest of the layer.
at::Tensor drawn_mask(const at::Tensor& x, const MaskSeed& seed, double kept) {
  const bool there = has_kernel<operators::Bernoulli>(x);
  const at::Tensor mask =
      at::empty(x.sizes(), at::TensorOptions(there ? x.device() : device::kHost).dtype(at::kByte));
  call<operators::Bernoulli>(mask, seed.number, seed.tensor, kept);
  return there ? mask : on_device_of(x, mask);
}

// Saves what the device's kernel keeps: the mask, or its seed alone.
class FusedDropout : public torch::autograd::Function<FusedDropout> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const std::optional<at::Tensor>& residual, const at::Tensor& x,
                            const MaskSeed& seed, double kept, double scale) {
    const auto [y, mask] = call<operators::Dropout>(residual, x, seed.number, seed.tensor, kept, scale);
    context->save_for_backward({mask, seed.tensor.value_or(at::Tensor())});
    context->saved_data["seed"] = seed.number;
    context->saved_data["kept"] = kept;
    context->saved_data["scale"] = scale;
    context->saved_data["adds"] = residual.has_value();
    context->set_materialize_grads(false);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return torch::autograd::variable_list(5);
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& mask = saved[0];
    MaskSeed seed = {context->saved_data["seed"].toInt(), {}};
    if (saved[1].defined()) seed.tensor = saved[1];
    const double kept = context->saved_data["kept"].toDouble();
    const double scale = context->saved_data["scale"].toDouble();
    torch::autograd::variable_list result(5);
    if (context->saved_data["adds"].toBool()) result[0] = dy;
    if (at::GradMode::is_enabled()) {
      const bool kept_mask = mask.numel() == dy.numel();
      const at::Tensor factors = kept_mask ? mask : drawn_mask(dy, seed, kept);
      result[1] = dy * (factors.to(dy.scalar_type()) * scale);
    } else {
      result[1] =
          call<operators::DropoutBackward>(dy.contiguous(), mask, seed.number, seed.tensor, kept, scale);
    }
    return result;
  }
};

}  // namespace

double Dropout::scale() const {
  return probability < 1 ? 1 / (1 - probability) : 0;
}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  if (!drops()) return x;
  const MaskSeed seed = drawn_mask_seed(random_stream);
  if (fused && takes(x))
    return FusedDropout::apply(std::nullopt, x.contiguous(), seed, 1 - probability, scale());
  return x * (drawn_mask(x, seed, 1 - probability).to(x.scalar_type()) * scale());
}

at::Tensor Dropout::added(const at::Tensor& residual, const at::Tensor& x) const {
  const bool alike = residual.sizes() == x.sizes() && residual.scalar_type() == x.scalar_type() &&
                     residual.device() == x.device();
  if (!drops() || !fused || !takes(x) || !alike) return residual + (*this)(x);
  return FusedDropout::apply(residual.contiguous(), x.contiguous(), drawn_mask_seed(random_stream),
                             1 - probability, scale());
}

// Draws from the default generator, from which ranks that share samples draw the same numbers.
at::Tensor DropPath::operator()(const at::Tensor& x) const {
  if (!is_training() || probability == 0) return x;
  std::vector<int64_t> by_sample(static_cast<size_t>(x.dim()), 1);
  by_sample[0] = x.size(0);
  const double kept = 1 - probability;
  const at::Tensor mask = drawn_mask(x.new_empty(by_sample), drawn_mask_seed(0), kept);
  return x * (mask.to(x.scalar_type()) * (1 / kept));
}

double drop_path_probability(double rate, int64_t layer, int64_t count) {
  return count < 2 ? 0 : rate * static_cast<double>(layer) / static_cast<double>(count - 1);
}

}  // namespace weft::nn
