#include "operators.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "cuda/attention_merge.hpp"
#include "cuda/column_sums.hpp"
#include "cuda/cross_entropy.hpp"
#include "cuda/dropout.hpp"
#include "cuda/gated.hpp"
#include "cuda/gelu.hpp"
#include "cuda/layer_norm.hpp"
#include "cuda/rms_norm.hpp"
#include "cuda/rotary.hpp"
#include "launch.hpp"
#include "weft/device_operators.hpp"

namespace weft::cuda {

namespace {

using kernels::RowNormaliser;
namespace gpu = kernels::cuda;

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const c10::DeviceGuard guard(x.device());
  const int64_t channels = x.size(-1), rows = x.numel() / channels;
  const at::Tensor y = at::empty_like(x), scale = at::empty({rows}, x.options().dtype(at::kFloat));
  with_kernel_type("rms_norm", x.scalar_type(), [&]<class T>(T) {
    gpu::rms_norm_forward<T>(rows, channels, static_cast<float>(epsilon), x.const_data_ptr<T>(),
                             weight.const_data_ptr<T>(), y.mutable_data_ptr<T>(),
                             scale.mutable_data_ptr<float>(), stream());
  });
  return {y, scale};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                     const at::Tensor& weight, const at::Tensor& scale,
                                                     const std::optional<at::Tensor>& residual,
                                                     std::array<bool, 2> wanted) {
  const c10::DeviceGuard guard(x.device());
  const int64_t channels = x.size(-1), rows = scale.numel();
  // One kernel computes both; the gradient of x alone saves nothing but memory.
  const at::Tensor dx = at::empty_like(x);
  at::Tensor partial, dweight;
  if (wanted[1]) {
    partial = at::empty({gpu::rms_norm_parts(rows), channels}, x.options().dtype(at::kFloat));
    dweight = at::empty_like(weight);
  }
  with_kernel_type("rms_norm_backward", x.scalar_type(), [&]<class T>(T) {
    gpu::rms_norm_backward<T>(rows, channels, x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                              scale.const_data_ptr<float>(), dy.const_data_ptr<T>(),
                              residual ? residual->const_data_ptr<T>() : nullptr, dx.mutable_data_ptr<T>(),
                              wanted[1] ? partial.mutable_data_ptr<float>() : nullptr,
                              wanted[1] ? dweight.mutable_data_ptr<T>() : nullptr, stream());
  });
  return {wanted[0] ? dx : at::Tensor(), dweight};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, double epsilon) {
  const c10::DeviceGuard guard(x.device());
  const int64_t channels = x.size(-1), rows = x.numel() / channels;
  const at::TensorOptions numbers = x.options().dtype(at::kFloat);
  const at::Tensor y = at::empty_like(x), mean = at::empty({rows}, numbers),
                   scale = at::empty({rows}, numbers);
  with_kernel_type("layer_norm", x.scalar_type(), [&]<class T>(T) {
    gpu::layer_norm_forward<T>(rows, channels, static_cast<float>(epsilon), x.const_data_ptr<T>(),
                               weight.const_data_ptr<T>(), bias.const_data_ptr<T>(), y.mutable_data_ptr<T>(),
                               mean.mutable_data_ptr<float>(), scale.mutable_data_ptr<float>(), stream());
  });
  return {y, mean, scale};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
    const at::Tensor& scale, const std::optional<at::Tensor>& residual, std::array<bool, 2> wanted) {
  const c10::DeviceGuard guard(x.device());
  const int64_t channels = x.size(-1), rows = scale.numel();
  if (channels > gpu::kMostChannelsOfLayerNorm) {
    const auto [dx, dweight, dbias] = at::native_layer_norm_backward(
        dy.view({rows, channels}), x.view({rows, channels}), {channels}, mean.unsqueeze(1),
        scale.unsqueeze(1), weight, weight, {wanted[0], wanted[1], wanted[1]});
    if (!dx.defined()) return {dx, dweight, dbias};
    const at::Tensor shaped = dx.view(x.sizes());
    return {residual ? shaped + *residual : shaped, dweight, dbias};
  }
  const at::Tensor dx = at::empty_like(x);
  at::Tensor partial, dweight, dbias;
  if (wanted[1]) {
    partial = at::empty({2, gpu::layer_norm_parts(rows), channels}, x.options().dtype(at::kFloat));
    dweight = at::empty_like(weight);
    dbias = at::empty_like(weight);
  }
  with_kernel_type("layer_norm_backward", x.scalar_type(), [&]<class T>(T) {
    gpu::layer_norm_backward<T>(rows, channels, x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                                mean.const_data_ptr<float>(), scale.const_data_ptr<float>(),
                                dy.const_data_ptr<T>(), residual ? residual->const_data_ptr<T>() : nullptr,
                                dx.mutable_data_ptr<T>(),
                                wanted[1] ? partial.mutable_data_ptr<float>() : nullptr,
                                wanted[1] ? dweight.mutable_data_ptr<T>() : nullptr,
                                wanted[1] ? dbias.mutable_data_ptr<T>() : nullptr, stream());
  });
  return {wanted[0] ? dx : at::Tensor(), dweight, dbias};
}

std::tuple<at::Tensor, at::Tensor> gelu_backward(const at::Tensor& dy, const at::Tensor& x, int64_t kind) {
  const c10::DeviceGuard guard(x.device());
  const int64_t rows = x.size(0), channels = x.size(1);
  const at::Tensor dx = at::empty_like(x), sums = at::empty({channels}, x.options()),
                   partial = at::empty({gpu::gelu_parts(rows), channels}, x.options().dtype(at::kFloat));
  with_kernel_type("gelu_backward", x.scalar_type(), [&]<class T>(T) {
    gpu::gelu_backward<T>(static_cast<kernels::Gelu>(kind), rows, channels, x.const_data_ptr<T>(),
                          dy.const_data_ptr<T>(), dx.mutable_data_ptr<T>(), partial.mutable_data_ptr<float>(),
                          sums.mutable_data_ptr<T>(), stream());
  });
  return {dx, sums};
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, int64_t kind) {
  const c10::DeviceGuard guard(gate.device());
  const at::Tensor y = at::empty_like(gate);
  with_kernel_type("gated", gate.scalar_type(), [&]<class T>(T) {
    gpu::gated_forward<T>(static_cast<kernels::Gate>(kind), gate.numel(), gate.const_data_ptr<T>(),
                          up.const_data_ptr<T>(), y.mutable_data_ptr<T>(), stream());
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> gated_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                  const at::Tensor& up, int64_t kind) {
  const c10::DeviceGuard guard(gate.device());
  const at::Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  with_kernel_type("gated_backward", gate.scalar_type(), [&]<class T>(T) {
    gpu::gated_backward<T>(static_cast<kernels::Gate>(kind), gate.numel(), gate.const_data_ptr<T>(),
                           up.const_data_ptr<T>(), dy.const_data_ptr<T>(), dgate.mutable_data_ptr<T>(),
                           dup.mutable_data_ptr<T>(), stream());
  });
  return {dgate, dup};
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, bool back) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor y = at::empty_like(x);
  const kernels::RotaryShape shape = {x.size(0), x.size(1),           x.size(2),
                                      x.size(3), cosine.size(0) == 1, x.size(3) - 2 * cosine.size(-1)};
  with_kernel_type("rotate", x.scalar_type(), [&]<class T>(T) {
    gpu::rotate<T>(shape, x.const_data_ptr<T>(), cosine.const_data_ptr<T>(), sine.const_data_ptr<T>(), back,
                   y.mutable_data_ptr<T>(), stream());
  });
  return y;
}

at::Tensor column_sums(const at::Tensor& x) {
  const c10::DeviceGuard guard(x.device());
  const int64_t rows = x.size(0), channels = x.size(1);
  const at::Tensor sums = at::empty({channels}, x.options());
  const at::Tensor partial =
      at::empty({gpu::column_sum_parts(rows, channels), channels}, x.options().dtype(at::kFloat));
  with_kernel_type("column_sums", x.scalar_type(), [&]<class T>(T) {
    gpu::column_sums<T>(rows, channels, x.const_data_ptr<T>(), partial.mutable_data_ptr<float>(),
                        sums.mutable_data_ptr<T>(), stream());
  });
  return sums;
}

gpu::MaskSeed mask_seed(int64_t seed, const std::optional<at::Tensor>& seed_tensor) {
  return {static_cast<uint64_t>(seed), seed_tensor ? seed_tensor->const_data_ptr<int64_t>() : nullptr};
}

at::Tensor dropped(const at::Tensor& residual, const at::Tensor& x, gpu::MaskSeed seed, double kept,
                   double scale) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor y = at::empty_like(x);
  with_kernel_type("dropout", x.scalar_type(), [&]<class T>(T) {
    gpu::dropout<T>(x.numel(), seed, kept, residual.defined() ? residual.const_data_ptr<T>() : nullptr,
                    x.const_data_ptr<T>(), static_cast<float>(scale), y.mutable_data_ptr<T>(), stream());
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> dropout(const std::optional<at::Tensor>& residual, const at::Tensor& x,
                                           int64_t seed, const std::optional<at::Tensor>& seed_tensor,
                                           double kept, double scale) {
  return {dropped(residual.value_or(at::Tensor()), x, mask_seed(seed, seed_tensor), kept, scale),
          at::empty({0}, x.options().dtype(at::kByte))};
}

at::Tensor dropout_backward(const at::Tensor& dy, const at::Tensor&, int64_t seed,
                            const std::optional<at::Tensor>& seed_tensor, double kept, double scale) {
  return dropped({}, dy, mask_seed(seed, seed_tensor), kept, scale);
}

void bernoulli(at::Tensor values, int64_t seed, const std::optional<at::Tensor>& seed_tensor, double kept) {
  const c10::DeviceGuard guard(values.device());
  gpu::bernoulli(values.numel(), mask_seed(seed, seed_tensor), kept, values.mutable_data_ptr<uint8_t>(),
                 stream());
}

kernels::CrossEntropyRows rows_of(int64_t classes, const at::Tensor& labels) {
  return {labels.numel(), classes, labels.const_data_ptr<int64_t>()};
}

RowNormaliser<float>* normalisers_in(const at::Tensor& pairs) {
  return static_cast<RowNormaliser<float>*>(pairs.data_ptr());
}

// Rows of logits (..., V), which may be apart (operators::CrossEntropy).
template <class T>
gpu::SpacedRows<T> spaced_rows(const at::Tensor& logits) {
  return {static_cast<T*>(logits.data_ptr()), logits.dim() > 1 ? logits.stride(-2) : logits.size(-1)};
}

at::TensorOptions floats(const at::Tensor& x) {
  return x.options().dtype(at::kFloat);
}

at::Tensor sum_of(const at::Tensor& losses) {
  const at::Tensor sum = at::empty({}, losses.options());
  gpu::sum_losses(losses.numel(), losses.const_data_ptr<float>(), sum.mutable_data_ptr<float>(), stream());
  return sum;
}

std::tuple<at::Tensor, at::Tensor> cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::DeviceGuard guard(logits.device());
  const at::Tensor normalisers = at::empty({labels.numel(), 2}, floats(logits)),
                   losses = at::empty({labels.numel()}, floats(logits));
  with_kernel_type("cross_entropy", logits.scalar_type(), [&]<class T>(T) {
    gpu::cross_entropy_forward<T>(rows_of(logits.size(-1), labels), spaced_rows<const T>(logits),
                                  normalisers_in(normalisers), losses.mutable_data_ptr<float>(), stream());
  });
  return {sum_of(losses), normalisers};
}

void cross_entropy_backward(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                            const at::Tensor& normalisers, at::Tensor result) {
  const c10::DeviceGuard guard(logits.device());
  const at::Tensor scale = gradient.to(at::kFloat);
  with_kernel_type("cross_entropy_backward", logits.scalar_type(), [&]<class T>(T) {
    gpu::cross_entropy_backward<T>(rows_of(logits.size(-1), labels), spaced_rows<const T>(logits),
                                   normalisers_in(normalisers), scale.const_data_ptr<float>(),
                                   spaced_rows<T>(result), stream());
  });
}

at::Tensor cross_entropy_with_gradient(at::Tensor logits, const at::Tensor& labels, double gradient) {
  const c10::DeviceGuard guard(logits.device());
  const at::Tensor losses = at::empty({labels.numel()}, floats(logits));
  with_kernel_type("cross_entropy_with_gradient", logits.scalar_type(), [&]<class T>(T) {
    gpu::cross_entropy_with_gradient<T>(rows_of(logits.size(-1), labels), spaced_rows<T>(logits),
                                        static_cast<float>(gradient), losses.mutable_data_ptr<float>(),
                                        stream());
  });
  return sum_of(losses);
}

void rescale(at::Tensor x, const at::Tensor& actual, double expected) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor given = actual.to(at::kFloat);
  with_kernel_type("rescale_", x.scalar_type(), [&]<class T>(T) {
    gpu::rescale<T>(x.numel() / x.size(-1), x.size(-1), spaced_rows<T>(x), given.const_data_ptr<float>(),
                    static_cast<float>(expected), stream());
  });
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_parts(const at::Tensor& logits, const at::Tensor& labels) {
  const c10::DeviceGuard guard(logits.device());
  const int64_t rows = labels.numel();
  const at::Tensor peaks = at::empty({rows}, floats(logits)), parts = at::empty({2, rows}, floats(logits));
  with_kernel_type("cross_entropy_parts", logits.scalar_type(), [&]<class T>(T) {
    gpu::cross_entropy_parts<T>(rows_of(logits.size(-1), labels), spaced_rows<const T>(logits),
                                peaks.mutable_data_ptr<float>(), parts.mutable_data_ptr<float>(), stream());
  });
  return {peaks, parts};
}

// Whether a label is here or elsewhere is all that the next two ask of it, so any number of classes above it
// does.
constexpr int64_t kAnyClass = INT64_MAX;

void cross_entropy_rebase(at::Tensor parts, const at::Tensor& labels, const at::Tensor& peaks,
                          const at::Tensor& all) {
  const c10::DeviceGuard guard(parts.device());
  gpu::cross_entropy_rebase(rows_of(kAnyClass, labels), peaks.const_data_ptr<float>(),
                            all.const_data_ptr<float>(), parts.mutable_data_ptr<float>(), stream());
}

std::tuple<at::Tensor, at::Tensor> cross_entropy_finish(const at::Tensor& parts, const at::Tensor& labels,
                                                        const at::Tensor& all) {
  const c10::DeviceGuard guard(parts.device());
  const at::Tensor normalisers = at::empty({labels.numel(), 2}, parts.options()),
                   losses = at::empty({labels.numel()}, parts.options());
  gpu::cross_entropy_finish(rows_of(kAnyClass, labels), all.const_data_ptr<float>(),
                            parts.const_data_ptr<float>(), normalisers_in(normalisers),
                            losses.mutable_data_ptr<float>(), stream());
  return {sum_of(losses), normalisers};
}

template <class T>
kernels::HeadsOf<T> heads_of(const at::Tensor& x) {
  return {static_cast<T*>(x.data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}

void merge_attention(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& given_part,
                     const at::Tensor& given_part_log_sum_exp) {
  const c10::DeviceGuard guard(out.device());
  const at::Tensor part = given_part.stride(3) == 1 ? given_part : given_part.contiguous();
  const at::Tensor part_log_sum_exp = given_part_log_sum_exp.contiguous();
  // A range of the positions: the kernel works on copies of what is not contiguous.
  const at::Tensor sum = out.stride(3) == 1 ? out : out.contiguous(), logarithms = log_sum_exp.contiguous();
  const gpu::MergeShape shape = {out.size(0), out.size(1), out.size(2), out.size(3)};
  with_kernel_type("merge_attention", part.scalar_type(), [&]<class T>(T) {
    gpu::merge_attention<T>(shape, heads_of<float>(sum), logarithms.mutable_data_ptr<float>(),
                            heads_of<const T>(part), part_log_sum_exp.const_data_ptr<float>(), stream());
  });
  if (!sum.is_same(out)) out.copy_(sum);
  if (!logarithms.is_same(log_sum_exp)) log_sum_exp.copy_(logarithms);
}

}  // namespace

void register_operators() {
  static const auto& registered = *[] {
    using namespace operators;
    auto* const library =
        new torch::Library(torch::Library::IMPL, "weft", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    implement<RmsNorm>(*library, rms_norm);
    implement<RmsNormBackward>(*library, rms_norm_backward);
    implement<LayerNorm>(*library, layer_norm);
    implement<LayerNormBackward>(*library, layer_norm_backward);
    implement<Gated>(*library, gated);
    implement<GatedBackward>(*library, gated_backward);
    implement<Rotate>(*library, rotate);
    implement<ColumnSums>(*library, column_sums);
    implement<GeluBackward>(*library, gelu_backward);
    implement<Dropout>(*library, dropout);
    implement<DropoutBackward>(*library, dropout_backward);
    implement<Bernoulli>(*library, bernoulli);
    implement<CrossEntropy>(*library, cross_entropy);
    implement<CrossEntropyBackward>(*library, cross_entropy_backward);
    implement<CrossEntropyWithGradient>(*library, cross_entropy_with_gradient);
    implement<Rescale>(*library, rescale);
    implement<CrossEntropyParts>(*library, cross_entropy_parts);
    implement<CrossEntropyRebase>(*library, cross_entropy_rebase);
    implement<CrossEntropyFinish>(*library, cross_entropy_finish);
    implement<MergeAttention>(*library, merge_attention);
    implement_updates(*library);
    implement_factored_updates(*library);
    return library;
  }();
  (void)registered;
}

}  // namespace weft::cuda
