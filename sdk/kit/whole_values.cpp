#include "weft/kit/whole_values.hpp"

#include "weft/torch/pools.hpp"

namespace weft::plugin::kit {

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
    const at::Tensor working = parameters_[i].tensor().detach().view(-1);
    sink.shard(parameters_[i], 0, masters_[i], gradient.defined() ? gradient.view(-1) : at::Tensor(), 0, 0,
               working.is_alias_of(masters_[i]) ? at::Tensor() : working);
  }
}

}  // namespace weft::plugin::kit
