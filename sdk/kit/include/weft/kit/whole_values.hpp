// Parameters that are replicated on all data-parallel ranks, with master weights if the master dtype is not
// the working dtype.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/torch/handles.hpp"

namespace weft::plugin::kit {

// Replicated parameters and their master weights.
class WholeValues {
 public:
  // Reads the values of all parameters and binds their storage.
  void build(const Training& training);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Returns the published values of each parameter, flat.
  const std::vector<at::Tensor>& values() const { return masters_; }

  void publish(ShardSink& sink) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> masters_;  // by parameter, flat; the parameters themselves if the dtypes are equal
};

}  // namespace weft::plugin::kit
