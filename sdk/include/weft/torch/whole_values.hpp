// Parameters that every rank of the data axes holds whole, with masters where the optimizer updates another
// dtype than the layers compute with.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "handles.hpp"

namespace weft {
inline namespace sdk_v0 {

class WholeValues {
 public:
  // Fills and binds all parameters.
  void build(const Training& training) {
    parameters_ = training.parameters();
    for (const Parameter& parameter : parameters_) {
      const weft_param_info info = parameter.info();
      masters_.push_back(at::empty({info.count}, scalar_type(info.master_dtype)));
      parameter.read(0, masters_.back());
      parameter.bind(masters_.back().to(scalar_type(info.working_dtype)));
    }
  }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  void publish(ShardSink& sink) const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& gradient = parameters_[i].gradient();
      sink.shard(parameters_[i], 0, masters_[i], gradient.defined() ? gradient.view(-1) : at::Tensor(), 0);
    }
  }
  // The masters were updated.
  void refresh() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor working = parameters_[i].tensor().detach().view(-1);
      if (!working.is_alias_of(masters_[i])) working.copy_(masters_[i]);
    }
  }

 private:
  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> masters_;  // by parameter, flat; with one dtype the parameters themselves
};

}  // namespace sdk_v0
}  // namespace weft
