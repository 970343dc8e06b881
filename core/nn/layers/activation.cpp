// The activations of Hugging Face's ACT2FN (transformers/activations.py), except those that have parameters.
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tanh.h>

#include <torch/csrc/autograd/custom_function.h>

#include <numbers>

#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "cpu/gelu.hpp"
#include "device/tensors.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "formula/gated.hpp"
#include "layers/gelu.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

using at::Tensor;

struct Named {
  const char* name;
  ActivationFunction function;
};

constexpr const char* name_of(kernels::Gelu kind) {
  return kind == kernels::Gelu::kErf ? "none" : "tanh";
}

template <kernels::Gelu kKind>
Tensor own_gelu(const Tensor& x) {
  const Tensor y = at::empty_like(x);
  kernels::gelu_forward(kKind, x.numel(), x.const_data_ptr<float>(), y.mutable_data_ptr<float>());
  return y;
}

// Runs Weft's kernel: libtorch's takes two to three times as long.
template <kernels::Gelu kKind>
class Gelu : public torch::autograd::Function<Gelu<kKind>> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    context->set_materialize_grads(false);
    return own_gelu<kKind>(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (!gradients[0].defined()) return {Tensor()};
    const Tensor x = context->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {at::gelu_backward(gradients[0], x, name_of(kKind))};
    const Tensor dy = gradients[0].contiguous(), dx = at::empty_like(x);
    kernels::gelu_backward(kKind, x.numel(), x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
                           dx.mutable_data_ptr<float>());
    return {dx};
  }
};

template <kernels::Gelu kKind>
Tensor gelu_of(const Tensor& x) {
  if (!device::is_on_host(x) || x.scalar_type() != at::kFloat) return at::gelu(x, name_of(kKind));
  return at::GradMode::is_enabled() ? Gelu<kKind>::apply(x.contiguous()) : own_gelu<kKind>(x.contiguous());
}

constexpr auto gelu_erf = gelu_of<kernels::Gelu::kErf>, gelu_tanh = gelu_of<kernels::Gelu::kTanh>;

Tensor gelu_tanh_composed(const Tensor& x) {
  constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
  return 0.5 * x * (1.0 + at::tanh(kRoot * (x + 0.044715 * at::pow(x, 3))));
}

Tensor silu(const Tensor& x) {
  return at::silu(x);
}

// Computes a gated activation in one pass and saves gate and up, but no intermediate result.
class Gated : public torch::autograd::Function<Gated> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate, const Tensor& up,
                        int64_t kind) {
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = kind;
    context->set_materialize_grads(false);
    return call<operators::Gated>(gate, up, kind);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    require_first_order("gated MLP");
    if (!gradients[0].defined()) return torch::autograd::variable_list(3);
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto [dgate, dup] = call<operators::GatedBackward>(gradients[0].contiguous(), saved[0], saved[1],
                                                             context->saved_data["kind"].toInt());
    return {dgate, dup, Tensor()};
  }
};

// The host's kernel is for fp32 alone, and so are estimates.
bool has_gated_kernel(const Tensor& gate, const Tensor& up) {
  const at::ScalarType type = gate.scalar_type();
  const bool takes = device::is_on_host(gate) || gate.is_meta() ? type == at::kFloat : has_type(type);
  return takes && up.scalar_type() == type && has_layer_kernel<operators::Gated>(gate);
}

Tensor laplace(const Tensor& x) {
  return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2)));
}

constexpr Named kActivations[] = {
    {"gelu", gelu_erf},
    {"gelu_10", [](const Tensor& x) { return at::clamp(gelu_erf(x), -10, 10); }},
    {"gelu_accurate", gelu_tanh},
    {"gelu_fast", gelu_tanh},
    {"gelu_new", gelu_tanh},
    {"gelu_python", gelu_erf},
    {"gelu_python_tanh", gelu_tanh},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"hardswish", [](const Tensor& x) { return at::hardswish(x); }},
    {"laplace", laplace},
    {"leaky_relu", [](const Tensor& x) { return at::leaky_relu(x); }},
    {"linear", [](const Tensor& x) { return x; }},
    {"mish", [](const Tensor& x) { return at::mish(x); }},
    {"quick_gelu", [](const Tensor& x) { return x * at::sigmoid(1.702 * x); }},
    {"relu", [](const Tensor& x) { return at::relu(x); }},
    {"relu2", [](const Tensor& x) { return at::square(at::relu(x)); }},
    {"relu6", [](const Tensor& x) { return at::relu6(x); }},
    {"sigmoid", [](const Tensor& x) { return at::sigmoid(x); }},
    {"silu", silu},
    {"sqrtsoftplus", [](const Tensor& x) { return at::sqrt(at::softplus(x)); }},
    {"swish", silu},
    {"tanh", [](const Tensor& x) { return at::tanh(x); }},
};

}  // namespace

ActivationFunction gelu(kernels::Gelu kind) {
  return kind == kernels::Gelu::kErf ? gelu_erf : gelu_tanh;
}

std::optional<kernels::Gelu> gelu_kind(ActivationFunction function) {
  if (function == gelu_erf) return kernels::Gelu::kErf;
  return function == gelu_tanh ? std::optional(kernels::Gelu::kTanh) : std::nullopt;
}

ActivationFunction activation(std::string_view name) {
  std::vector<std::string> known;
  for (const Named& candidate : kActivations) {
    if (candidate.name == name) return candidate.function;
    known.push_back(candidate.name);
  }
  fail(WEFT_INVALID_ARGUMENT, "no activation is called \"{}\"{}; there are: {}", printable(name, 60),
       did_you_mean(name, known), fmt::join(known, ", "));
}

at::Tensor Activation::operator()(const at::Tensor& x) const {
  if (!fused && function_ == gelu_erf) return at::gelu(x);
  return !fused && function_ == gelu_tanh ? gelu_tanh_composed(x) : function_(x);
}

at::Tensor Activation::operator()(const at::Tensor& gate, const at::Tensor& up) const {
  const bool known = function_ == silu || function_ == gelu_tanh;
  if (!fused || !known || gate.sizes() != up.sizes() || !has_gated_kernel(gate, up)) return (*this)(gate)*up;
  const auto kind = static_cast<int64_t>(function_ == silu ? kernels::Gate::kSilu : kernels::Gate::kGeluTanh);
  if (!at::GradMode::is_enabled()) return call<operators::Gated>(gate.contiguous(), up.contiguous(), kind);
  return Gated::apply(gate.contiguous(), up.contiguous(), kind);
}

}  // namespace weft::nn
