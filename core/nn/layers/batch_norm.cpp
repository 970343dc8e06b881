#include "weft/nn/batch_norm.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

namespace {

// Returns `by_channel` (C) in a shape that broadcasts to x (N, C, ...).
at::Tensor spread(const at::Tensor& by_channel, const at::Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  return by_channel.view(shape);
}

// Returns the sums over samples and positions, (C).
at::Tensor sums_of(const at::Tensor& x) {
  return x.transpose(0, 1).flatten(1).sum(1);
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> kept_buffers(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> kept;
  for (const auto& module : model.named_modules("", /*include_self=*/false)) {
    if (dynamic_cast<const KeepsBuffers*>(module.value().get()) == nullptr) continue;
    for (const auto& buffer : module.value()->named_buffers(/*recurse=*/false))
      kept.emplace_back(module.key() + "." + buffer.key(), buffer.value());
  }
  return kept;
}

BatchNorm::BatchNorm(int64_t channels, const Options& options, at::ScalarType dtype) : options(options) {
  const auto parameters = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({channels}, parameters));
  bias = register_parameter("bias", at::empty({channels}, parameters));
  const at::ScalarType exact = dtype == at::kDouble ? at::kDouble : at::kFloat;
  running_mean = register_buffer("running_mean", at::zeros({channels}, exact));
  running_var = register_buffer("running_var", at::ones({channels}, exact));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

void BatchNorm::track(const at::Tensor& mean, const at::Tensor& unbiased_variance) const {
  const RunningUnit* const running = RunningUnit::find();
  if (running != nullptr && running->runs_again()) return;
  const at::NoGradGuard no_grad;
  running_mean.lerp_(mean.detach().to(running_mean.scalar_type()), options.momentum);
  running_var.lerp_(unbiased_variance.detach().to(running_var.scalar_type()), options.momentum);
  num_batches_tracked.add_(1);
}

at::Tensor BatchNorm::operator()(const at::Tensor& x) const {
  const at::Tensor exact = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  const auto normed = [&](const at::Tensor& centred, const at::Tensor& variance) {
    const at::Tensor scale = at::rsqrt(variance + options.epsilon) * weight;
    return (centred * spread(scale, x) + spread(bias.to(scale.scalar_type()), x)).to(x.scalar_type());
  };
  if (!is_training()) return normed(exact - spread(running_mean, x), running_var);
  // The second sum is that of differences from the mean, which loses no digits.
  const at::Tensor count = at::full({1}, static_cast<double>(x.numel() / x.size(1)), exact.options());
  const auto sum = [&](const at::Tensor& own) { return operation ? operation->sum(own) : own; };
  const at::Tensor first = sum(at::cat({sums_of(exact), count}));
  const at::Tensor all = first.narrow(0, x.size(1), 1).detach(), mean = first.narrow(0, 0, x.size(1)) / all;
  const at::Tensor centred = exact - spread(mean, x);
  const at::Tensor squares = sum(sums_of(centred.square()));
  track(mean, squares / (all - 1).clamp_min(1));
  return normed(centred, squares / all);
}

}  // namespace weft::nn
