// A small transformer of plain libtorch operations: embeddings of tokens and positions, two blocks, tied
// head.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace weft::sim {

struct SmallModel {
  // The same values on every device.
  explicit SmallModel(c10::Device device);

  // Returns the ids and labels of a batch, the same on every device.
  static std::pair<at::Tensor, at::Tensor> batch(c10::Device device);

  at::Tensor loss(const at::Tensor& ids, const at::Tensor& labels) const;
  std::vector<at::Tensor> gradients() const;
  // Subtracts `rate` times the gradients, and drops them.
  void step(double rate);
  // Calls `visit` with the gradient of a parameter when backward has computed it.
  void on_gradient(const std::function<void(const at::Tensor&)>& visit);

  std::vector<at::Tensor> parameters;
  double dropout = 0;
};

// Returns whether all tensors have the same bits.
bool same_values(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace weft::sim
