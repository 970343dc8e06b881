#include "weft/kit/whole_values.hpp"

#include <ATen/ops/_foreach_copy.h>

#include <vector>

#include "weft/torch/pools.hpp"

namespace weft::kit {

void WholeValues::build(const Training& training) {
  parameters_ = training.parameters();
  for (const Parameter& parameter : parameters_) {
    const weft_param_info info = parameter.info();
    masters_.push_back(allocate(WEFT_POOL_ACCELERATOR, info.count, scalar_type(info.master_dtype)));
    parameter.read(0, masters_.back());
    parameter.bind(masters_.back().to(scalar_type(info.working_dtype)));
  }
}

void WholeValues::publish(ShardSink& sink) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].gradient();
    sink.shard(parameters_[i], 0, masters_[i], gradient.defined() ? gradient.view(-1) : at::Tensor(), 0);
  }
}

void WholeValues::refresh() {
  std::vector<at::Tensor> masters, copies;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor working = parameters_[i].tensor().detach().view(-1);
    if (working.is_alias_of(masters_[i])) continue;
    masters.push_back(masters_[i]);
    copies.push_back(working);
  }
  if (!copies.empty()) at::_foreach_copy_(copies, masters);
}

}  // namespace weft::kit
