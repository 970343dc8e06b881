// Operation slots: what a layer computes, apart from what it owns. A plan replaces the operation and leaves
// the layer, its names and its parameters alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace weft::nn {

class Linear;

class LinearOperation {
 public:
  virtual ~LinearOperation() = default;
  virtual std::string id() const = 0;  // "weft.linear/1"
  virtual at::Tensor forward(const Linear& layer, const at::Tensor& x) const = 0;
};

}  // namespace weft::nn
