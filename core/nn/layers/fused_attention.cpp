#include "layers/fused_attention.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/autograd/custom_function.h>

#include "autograd/first_order.hpp"
#include "cpu/attention.hpp"
#include "device/tensors.hpp"
#include "layers/documents.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// q: (B, T, H, D), k and v: (B, S, G, D), with the last dimension contiguous. The bias, which is added to the
// scores, is undefined or (B or 1, H or 1, T or 1, S) in fp32, with the last dimension contiguous.
struct Parts {
  at::Tensor q, k, v, bias;
};

Parts parts_of(const at::Tensor& qkv, const at::Tensor& bias) {
  return {qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), bias};
}

void save(AutogradContext* context, const FusedAttention& setting) {
  context->saved_data["causal"] = setting.causal;
  context->saved_data["window"] = setting.window;
  context->saved_data["scale"] = setting.scale;
  context->saved_data["documents"] = setting.documents;
  context->saved_data["dropout"] = setting.dropout;
  context->saved_data["seed"] = setting.seed;
}

FusedAttention saved_setting(AutogradContext* context) {
  return {context->saved_data["causal"].toBool(),    context->saved_data["window"].toInt(),
          context->saved_data["scale"].toDouble(),   context->saved_data["documents"].toTensor(),
          context->saved_data["dropout"].toDouble(), context->saved_data["seed"].toInt()};
}

using Spans = std::vector<kernels::AttentionSpan>;

Spans spans_of(const FusedAttention& setting) {
  return setting.documents.defined() ? document_spans(setting.documents) : Spans();
}

// `spans` outlives the result.
kernels::AttentionShape shape_of(const Parts& in, const FusedAttention& setting, const Spans& spans) {
  const at::Tensor &q = in.q, &k = in.k;
  return {.batch = q.size(0),
          .heads = q.size(2),
          .queries = q.size(1),
          .keys = k.size(1),
          .size = q.size(3),
          .causal = setting.causal,
          .scale = static_cast<float>(setting.scale),
          .shared = q.size(2) / k.size(2),
          .window = setting.window,
          .spans = spans.data(),
          .num_spans = static_cast<int64_t>(spans.size()),
          .kept = 1 - setting.dropout,
          .seed = static_cast<uint64_t>(setting.seed)};
}

template <typename T>
kernels::HeadsOf<T> heads_of(const at::Tensor& x) {
  return {static_cast<float*>(x.data_ptr()), x.stride(0), x.stride(2), x.stride(1)};
}

template <typename T>
kernels::BiasOf<T> bias_of(const at::Tensor& bias) {
  if (!bias.defined()) return {};
  const auto stride = [&](int64_t dim) { return bias.size(dim) == 1 ? 0 : bias.stride(dim); };
  return {static_cast<float*>(bias.data_ptr()), stride(0), stride(1), stride(2)};
}

struct Attended {
  at::Tensor out, log_sum_exp;  // (B, T, H D), (B, H, T)
};

Attended fused_forward(const Parts& in, const FusedAttention& setting) {
  const Spans spans = spans_of(setting);
  const kernels::AttentionShape shape = shape_of(in, setting, spans);
  const Attended result = {at::empty({shape.batch, shape.queries, shape.heads * shape.size}, in.q.options()),
                           at::empty({shape.batch, shape.heads, shape.queries}, in.q.options())};
  if (in.q.is_meta()) return result;
  kernels::attention_forward(shape, heads_of<const float>(in.q), heads_of<const float>(in.k),
                             heads_of<const float>(in.v), bias_of<const float>(in.bias),
                             heads_of<float>(result.out.view(in.q.sizes())),
                             result.log_sum_exp.mutable_data_ptr<float>());
  return result;
}

void fused_backward(const Parts& in, const Attended& attended, const at::Tensor& up,
                    const FusedAttention& setting, const Parts& gradients) {
  require_first_order("attention");
  const Spans spans = spans_of(setting);
  kernels::attention_backward(
      shape_of(in, setting, spans), heads_of<const float>(in.q), heads_of<const float>(in.k),
      heads_of<const float>(in.v), bias_of<const float>(in.bias),
      heads_of<const float>(attended.out.view(in.q.sizes())),
      heads_of<const float>(up.contiguous().view(in.q.sizes())), attended.log_sum_exp.const_data_ptr<float>(),
      {heads_of<float>(gradients.q), heads_of<float>(gradients.k), heads_of<float>(gradients.v),
       bias_of<float>(gradients.bias)});
}

using Bias = std::optional<at::Tensor>;

// The gradient of the bias, for the kernel to add to, or undefined if nobody wants it.
at::Tensor bias_gradient(AutogradContext* context, size_t index, const at::Tensor& bias) {
  if (!bias.defined() || !context->needs_input_grad(index)) return {};
  return at::zeros(bias.sizes(), bias.options());
}

class FusedSelfAttention : public torch::autograd::Function<FusedSelfAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const Bias& bias,
                            const FusedAttention& setting) {
    const at::Tensor added = bias.value_or(at::Tensor());
    const Attended attended = fused_forward(parts_of(qkv, added), setting);
    context->save_for_backward({qkv, attended.out, attended.log_sum_exp, added});
    save(context, setting);
    return attended.out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &bias = saved[3];
    const at::Tensor result = at::empty(qkv.sizes(), qkv.options()),
                     of_bias = bias_gradient(context, 1, bias);
    fused_backward(parts_of(qkv, bias), {saved[1], saved[2]}, gradients[0], saved_setting(context),
                   parts_of(result, of_bias));
    return {result, of_bias, {}};
  }
};

class FusedGroupedAttention : public torch::autograd::Function<FusedGroupedAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const Bias& bias, const FusedAttention& setting) {
    const at::Tensor added = bias.value_or(at::Tensor());
    const Attended attended = fused_forward({q, k, v, added}, setting);
    context->save_for_backward({q, k, v, attended.out, attended.log_sum_exp, added});
    save(context, setting);
    return attended.out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Parts in = {saved[0], saved[1], saved[2], saved[5]};
    const auto like = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
    const Parts result = {like(in.q), like(in.k), like(in.v), bias_gradient(context, 3, in.bias)};
    fused_backward(in, {saved[3], saved[4]}, gradients[0], saved_setting(context), result);
    return {result.q, result.k, result.v, result.bias, {}};
  }
};

bool wants_gradient(const at::Tensor& mask) {
  return mask.defined() && mask.requires_grad() && at::GradMode::is_enabled();
}

// Returns true if the fused kernel adds this mask to the scores, (B, H, T, S). It sums gradients over samples
// only.
bool fits_scores(const at::Tensor& mask, at::IntArrayRef scores) {
  if (!mask.defined()) return true;
  if (mask.dim() != 4 || mask.size(3) != scores[3]) return false;
  for (const int64_t dim : {0, 1, 2})
    if (mask.size(dim) != scores[dim] && mask.size(dim) != 1) return false;
  return !wants_gradient(mask) || (mask.size(1) == scores[1] && mask.size(2) == scores[2]);
}

Bias bias_of_scores(const at::Tensor& mask) {
  if (!mask.defined()) return {};
  return mask.stride(3) == 1 ? mask : mask.contiguous();
}

}  // namespace

bool has_fused_attention(const at::Tensor& x, const at::Tensor& mask, const AttentionOptions& options,
                         at::IntArrayRef scores) {
  const bool on_host = (x.is_meta() || device::is_on_host(x)) && x.scalar_type() == at::kFloat &&
                       kernels::attention_takes(x.size(-1));
  const bool stands_for_others = x.is_meta() && !wants_gradient(mask) && options.dropout == 0;
  return options.fused && (on_host || stands_for_others) && scores[3] > 0 && fits_scores(mask, scores) &&
         options.soft_cap == 0 && options.scale.value_or(1) > 0;
}

at::Tensor fused_attention(const at::Tensor& qkv, const at::Tensor& mask, const FusedAttention& setting) {
  return FusedSelfAttention::apply(qkv, bias_of_scores(mask), setting);
}

at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& mask, const FusedAttention& setting) {
  return FusedGroupedAttention::apply(q, k, v, bias_of_scores(mask), setting);
}

}  // namespace weft::nn
