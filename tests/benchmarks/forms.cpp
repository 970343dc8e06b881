// The time of the plain and of the fused form of each layer, forward and backward: the best of rounds in
// which they take turns.
//   forms [THREADS]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <weft/nn/layers.hpp>
#include <weft/nn/rms_norm.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<at::Tensor(const Tensors&)>;

double seconds_of(const Forward& forward, const Tensors& inputs, const at::Tensor& gradient) {
  const auto start = std::chrono::steady_clock::now();
  forward(inputs).backward(gradient);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  for (const at::Tensor& input : inputs) input.mutable_grad().reset();
  return taken.count();
}

void measure(const std::string& name, weft::nn::Fusible& layer, const Forward& forward,
             const std::vector<std::vector<int64_t>>& shapes) {
  constexpr int kRounds = 30;
  Tensors inputs;
  for (const auto& shape : shapes) inputs.push_back(at::randn(shape).requires_grad_(true));
  const at::Tensor gradient = at::randn_like(forward(inputs).detach());
  double best[2] = {1e9, 1e9};
  for (int round = 0; round < kRounds; ++round)
    for (const bool fused : {false, true}) {
      layer.fused = fused;
      best[fused] = std::min(best[fused], seconds_of(forward, inputs, gradient));
    }
  std::printf("| %s | %.2f | %.2f | %.2f |\n", name.c_str(), 1e3 * best[0], 1e3 * best[1], best[0] / best[1]);
}

void measure_all(const char* model, int64_t rows, int64_t width, int64_t inner) {
  const std::string of = std::string(", ") + model;
  weft::nn::LayerNorm layer_norm(width, 1e-5, at::kFloat);
  const Forward normalise = [&](const Tensors& in) {
    layer_norm.weight = in[1];
    layer_norm.bias = in[2];
    return layer_norm(in[0]);
  };
  measure("layer norm" + of, layer_norm, normalise, {{rows, width}, {width}, {width}});
  weft::nn::RmsNorm rms_norm(width, 1e-5, at::kFloat);
  const Forward rms = [&](const Tensors& in) {
    rms_norm.weight = in[1];
    return rms_norm(in[0]);
  };
  measure("RMS norm" + of, rms_norm, rms, {{rows, width}, {width}});
  weft::nn::Activation gelu("gelu_new"), silu("silu");
  measure("gelu_new" + of, gelu, [&](const Tensors& in) { return gelu(in[0]); }, {{rows, inner}});
  for (auto& [kind, activation] : {std::pair("gelu_new", &gelu), std::pair("silu", &silu)})
    measure(std::string("gated ") + kind + of, *activation,
            [&, activation = activation](const Tensors& in) { return (*activation)(in[0], in[1]); },
            {{rows, inner}, {rows, inner}});
  weft::nn::Dropout dropout(0.1);
  measure("dropout" + of, dropout, [&](const Tensors& in) { return dropout(in[0]); }, {{rows, width}});
  measure("dropout and residual" + of, dropout,
          [&](const Tensors& in) { return dropout.added(in[1], in[0]); }, {{rows, width}, {rows, width}});
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::stoi(argv[1]) : 1);
  std::printf("| layer, forward and backward, fp32, 2048 rows | plain, ms | fused, ms | plain / fused |\n");
  std::printf("|---|---|---|---|\n");
  measure_all("768 / 3072", 2048, 768, 3072);
  measure_all("384 / 1024", 2048, 384, 1024);
}
