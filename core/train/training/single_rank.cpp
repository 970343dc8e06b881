#include "training/single_rank.hpp"

#include <ATen/ops/empty.h>

#include <vector>

#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "training/bindings.hpp"
#include "training/services.hpp"

struct weft_strategy {
  weft_training* training = nullptr;
  std::vector<at::Tensor> masters;  // by parameter; shares its storage if it has the master dtype
};

namespace weft {

namespace {

const weft_at_tensor* handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}

weft_status create(const weft_strategy_api*, const weft_strategy_arguments* arguments, weft_strategy** own,
                   weft_error* error) {
  return guarded(error, [&] {
    if (arguments->world_size != 1)
      fail(WEFT_INVALID_ARGUMENT,
           "no strategy (\"none\") runs on one rank, but there are {}; name a strategy (`weft plugins list` "
           "shows them)",
           arguments->world_size);
    *own = new weft_strategy;
  });
}

weft_status configure(weft_strategy* strategy, weft_training* training, weft_error* error) {
  return guarded(error, [&] {
    strategy->training = training;
    const auto& services =
        *static_cast<const weft_model_services*>(training_services(borrow(WEFT_MODEL_SERVICES)));
    for (const auto& param : training->params()) {
      const at::Tensor master = at::empty(param->local, device::current().options(param->master_dtype()));
      ErrorSink inner;
      inner.check(services.param_read(param.get(), 0, param->count(), handle_of(master.view(-1)), inner));
      inner.check(services.param_bind(param.get(), handle_of(master.to(param->tensor.scalar_type())), inner));
      strategy->masters.push_back(master);
    }
  });
}

weft_status publish(weft_strategy* strategy, uint32_t, weft_shard_sink* sink, weft_error* error) {
  return guarded(error, [&] {
    const auto& services =
        *static_cast<const weft_publish_services*>(training_services(borrow(WEFT_PUBLISH_SERVICES)));
    for (const auto& param : strategy->training->params()) {
      const at::Tensor &value = strategy->masters[param->index], gradient = param->tensor.grad(),
                       working = param->tensor.detach();
      const weft_shard record{sizeof(record),
                              param.get(),
                              0,
                              value.numel(),
                              handle_of(value),
                              gradient.defined() ? handle_of(gradient) : nullptr,
                              0,
                              0,
                              working.is_alias_of(value) ? nullptr : handle_of(working)};
      ErrorSink inner;
      inner.check(services.shard(sink, &record, inner));
    }
  });
}

weft_status zero_gradients(weft_strategy* strategy, weft_error* error) {
  return guarded(error, [&] {
    for (const auto& param : strategy->training->params()) param->tensor.mutable_grad().reset();
  });
}

weft_status estimate(const weft_strategy_api*, const weft_strategy_arguments*, const weft_job_shape* job,
                     weft_job_estimate* out, weft_error*) {
  int64_t elements = 0, trained = 0;
  for (uint64_t i = 0; i < job->num_params; ++i) {
    elements += job->params[i]->elements;
    trained += job->params[i]->frozen ? 0 : job->params[i]->elements;
  }
  out->parameters = elements * job->working_size;
  out->gradients = trained * job->working_size;
  out->masters = job->master_size == job->working_size ? 0 : trained * job->master_size;
  out->states = trained * job->num_states * job->state_size;
  return WEFT_OK;
}

}  // namespace

const weft_strategy_api& single_rank() {
  static const weft_strategy_api table = [] {
    weft_strategy_api t{};
    t.struct_size = sizeof(t);
    t.create = &create;
    t.destroy = [](weft_strategy* strategy) { delete strategy; };
    t.configure = &configure;
    t.publish = &publish;
    t.zero_gradients = &zero_gradients;
    t.estimate = &estimate;
    t.flags = WEFT_STRATEGY_KEEPS_STORAGE;
    return t;
  }();
  return table;
}

}  // namespace weft
