// Parameters that every rank of the data axes holds whole, with master values where the optimizer updates
// another dtype than the layers compute with.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/torch/handles.hpp"

namespace weft::kit {

// Parameters and master weights that every rank keeps whole.
class WholeValues {
 public:
  // Fills and binds all parameters.
  void build(const Training& training);
  const std::vector<Parameter>& parameters() const { return parameters_; }

  void publish(ShardSink& sink) const;
  // Copies the master values to the parameters after they were updated.
  void refresh();

 private:
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> masters_;  // by parameter, flat; with one dtype the parameters themselves
};

}  // namespace weft::kit
