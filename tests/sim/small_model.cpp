#include "sim/small_model.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace weft::sim {

namespace {

constexpr int64_t kVocabulary = 61, kChannels = 32, kHeads = 4, kLength = 16, kSamples = 3, kLayers = 2;
constexpr int kPerLayer = 12;

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void(const at::Tensor&)> visit) : visit_(std::move(visit)) {}
  void operator()(const torch::autograd::Variable& parameter) override { visit_(parameter.grad()); }

 private:
  std::function<void(const at::Tensor&)> visit_;
};

at::Tensor heads(const at::Tensor& x) {
  return x.view({kSamples, kLength, kHeads, -1}).transpose(1, 2);
}

at::Tensor norm(const at::Tensor& x, const at::Tensor* p) {
  return at::layer_norm(x, {kChannels}, p[0], p[1]);
}

}  // namespace

SmallModel::SmallModel(c10::Device device) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const auto add = [&](at::IntArrayRef shape, double scale, double mean = 0) {
    const at::Tensor values = at::randn(shape, generator, at::kFloat) * scale + mean;
    parameters.push_back(values.to(device).requires_grad_());
  };
  add({kVocabulary, kChannels}, 0.3);
  add({kLength, kChannels}, 0.3);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    add({kChannels}, 0.1, 1), add({kChannels}, 0.1);
    add({3 * kChannels, kChannels}, 0.2), add({3 * kChannels}, 0.1);
    add({kChannels, kChannels}, 0.2), add({kChannels}, 0.1);
    add({kChannels}, 0.1, 1), add({kChannels}, 0.1);
    add({4 * kChannels, kChannels}, 0.2), add({4 * kChannels}, 0.1);
    add({kChannels, 4 * kChannels}, 0.2), add({kChannels}, 0.1);
  }
}

std::pair<at::Tensor, at::Tensor> SmallModel::batch(c10::Device device) {
  const at::Tensor ids =
      at::randint(0, kVocabulary, {kSamples, kLength + 1}, at::detail::createCPUGenerator(3), at::kLong);
  return {ids.narrow(1, 0, kLength).contiguous().to(device),
          ids.narrow(1, 1, kLength).contiguous().to(device)};
}

at::Tensor SmallModel::loss(const at::Tensor& ids, const at::Tensor& labels) const {
  const at::Tensor positions = at::arange(kLength, ids.options());
  at::Tensor x = at::embedding(parameters[0], ids) + at::embedding(parameters[1], positions);
  x = at::dropout(x, dropout, /*train=*/true);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const at::Tensor* const p = &parameters[2 + kPerLayer * layer];
    const auto qkv = at::linear(norm(x, p), p[2], p[3]).chunk(3, -1);
    const at::Tensor attended =
        at::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {},
                                         /*dropout_p=*/0.0, /*is_causal=*/true);
    x = x + at::linear(attended.transpose(1, 2).reshape({kSamples, kLength, kChannels}), p[4], p[5]);
    x = x + at::linear(at::gelu(at::linear(norm(x, p + 6), p[8], p[9])), p[10], p[11]);
  }
  return at::cross_entropy_loss(at::linear(x, parameters[0]).flatten(0, 1), labels.flatten());
}

std::vector<at::Tensor> SmallModel::gradients() const {
  std::vector<at::Tensor> list;
  for (const at::Tensor& parameter : parameters) list.push_back(parameter.grad());
  return list;
}

void SmallModel::step(double rate) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : parameters) {
    parameter.add_(parameter.grad(), -rate);
    parameter.mutable_grad() = at::Tensor();
  }
}

void SmallModel::on_gradient(const std::function<void(const at::Tensor&)>& visit) {
  for (const at::Tensor& parameter : parameters)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<GradientHook>(visit));
}

bool same_values(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i].detach().cpu(), b[i].detach().cpu())) return false;
  return true;
}

}  // namespace weft::sim
