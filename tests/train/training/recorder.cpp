#include "train/training/recorder.hpp"

#include <ATen/ATen.h>

#include "base/error_sink.hpp"
#include "training/services.hpp"
#include "training/single_rank.hpp"

namespace weft::test {

namespace {

Recorder* making = nullptr;  // the recorder whose strategy `create` makes

Recorder& self(weft_strategy* strategy) {
  return *reinterpret_cast<Recorder*>(strategy);
}

template <class Table>
const Table& table(const char* id) {
  return *static_cast<const Table*>(training_services(borrow(id)));
}

std::string unit_event(const char* hook, weft_unit* unit) {
  return fmt::format("{} {}", hook, unit->unit->name());
}

std::string backward_event(const char* hook, const weft_pass& pass) {
  return fmt::format("{} {} of {}{}", hook, pass.micro, pass.num_micros,
                     pass.synchronise ? " synchronised" : "");
}

}  // namespace

Recorder::Recorder() {
  api_.struct_size = sizeof(api_);
  api_.create = [](const weft_strategy_api*, const weft_strategy_arguments* arguments, weft_strategy** own,
                   weft_error* error) {
    return guarded(error, [&] {
      making->world_size = arguments->world_size;
      making->note("create");
      *own = reinterpret_cast<weft_strategy*>(making);
    });
  };
  api_.destroy = [](weft_strategy* s) { self(s).events.push_back("destroy"); };
  api_.describe_mesh = [](weft_strategy* s, weft_mesh* mesh, weft_error* error) {
    return guarded(error, [&] {
      self(s).note("describe_mesh");
      mesh->size[axis::kData] = self(s).world_size;
      if (self(s).describe_mesh) self(s).describe_mesh(mesh);
    });
  };
  api_.configure = [](weft_strategy* s, weft_training* training, weft_error* error) {
    return guarded(error, [&] {
      self(s).training = training;
      self(s).note("configure");
      self(s).configure ? self(s).configure(training) : self(s).bind_whole(training);
    });
  };
  api_.before_forward = [](weft_strategy* s, weft_unit* unit, const weft_pass*, weft_error* error) {
    return guarded(error, [&] { self(s).note(unit_event("before_forward", unit)); });
  };
  api_.after_forward = [](weft_strategy* s, weft_unit* unit, const weft_pass*, weft_error* error) {
    return guarded(error, [&] { self(s).note(unit_event("after_forward", unit)); });
  };
  api_.before_backward = [](weft_strategy* s, weft_unit* unit, const weft_pass*, weft_error* error) {
    return guarded(error, [&] { self(s).note(unit_event("before_backward", unit)); });
  };
  api_.after_backward = [](weft_strategy* s, weft_unit* unit, const weft_pass*, weft_error* error) {
    return guarded(error, [&] { self(s).note(unit_event("after_backward", unit)); });
  };
  api_.gradient_ready = [](weft_strategy* s, weft_param* param, const weft_pass*, weft_error* error) {
    return guarded(error, [&] { self(s).note("gradient_ready " + param->name); });
  };
  api_.begin_backward = [](weft_strategy* s, const weft_pass* pass, weft_error* error) {
    return guarded(error, [&] { self(s).note(backward_event("begin_backward", *pass)); });
  };
  api_.end_backward = [](weft_strategy* s, const weft_pass* pass, weft_error* error) {
    return guarded(error, [&] { self(s).end_backward(*pass); });
  };
  api_.publish = [](weft_strategy* s, uint32_t, weft_shard_sink* sink, weft_error* error) {
    return guarded(error, [&] {
      if (self(s).publish) return self(s).publish(sink);
      for (weft_param* param : self(s).training->own_params()) {
        const at::Tensor value = param->tensor.detach(), gradient = param->tensor.grad();
        const weft_shard shard{sizeof(shard),
                               param,
                               0,
                               value.numel(),
                               handle_of(value),
                               gradient.defined() ? handle_of(gradient) : nullptr,
                               0,
                               0,
                               nullptr};
        call([&](weft_error* e) { return publish_services().shard(sink, &shard, e); });
      }
    });
  };
  api_.values_changed = [](weft_strategy* s, uint32_t, weft_error* error) {
    return guarded(error, [&] { self(s).note("values_changed"); });
  };
  api_.zero_gradients = [](weft_strategy* s, weft_error* error) {
    return guarded(error, [&] {
      self(s).note("zero_gradients");
      for (const weft_param* param : self(s).training->own_params()) param->tensor.mutable_grad().reset();
    });
  };
}

void Recorder::use_run_step() {
  api_.run_step = nullptr;
  if (!run_step) return;
  api_.run_step = [](weft_strategy* s, weft_step* step, weft_error* error) {
    return guarded(error, [&] {
      self(s).note("run_step");
      self(s).run_step(step);
    });
  };
}

void Recorder::note(const std::string& event) {
  events.push_back(event);
  if (on_event) on_event(event);
}

void Recorder::bind_whole(weft_training* made) {
  for (weft_param* param : made->own_params()) {
    const at::Tensor storage = at::empty(param->local, param->tensor.scalar_type());
    call([&](weft_error* e) {
      return model_services().param_read(param, 0, param->count(), handle_of(storage.view(-1)), e);
    });
    call([&](weft_error* e) { return model_services().param_bind(param, handle_of(storage), e); });
  }
}

// Sums the gradients of whole parameters in their order.
void Recorder::end_backward(const weft_pass& pass) {
  note(backward_event("end_backward", pass));
  if (!sums || !pass.synchronise) return;
  weft_comm* const data = comm_services().comm(training, 1u << axis::kData);
  if (comm_services().size(data) == 1) return;
  for (const weft_param* param : training->own_params()) {
    if (param->frozen) continue;
    at::Tensor& gradient = param->tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(param->tensor.detach());
    weft_work* work = nullptr;
    call([&](weft_error* e) {
      return comm_services().all_reduce(data, handle_of(gradient), WEFT_REDUCE_SUM, &work, e);
    });
    call([&](weft_error* e) { return comm_services().wait(work, e); });
    comm_services().release(work);
  }
}

std::vector<std::string> Recorder::without_gradients(size_t from) const {
  std::vector<std::string> found;
  for (size_t i = from; i < events.size(); ++i)
    if (!events[i].starts_with("gradient_ready")) found.push_back(events[i]);
  return found;
}

std::vector<std::string> Recorder::of(const std::string& hook) const {
  std::vector<std::string> found;
  for (const std::string& event : events)
    if (event.starts_with(hook)) found.push_back(event);
  return found;
}

const weft_model_services& model_services() {
  return table<weft_model_services>(WEFT_MODEL_SERVICES);
}
const weft_comm_services& comm_services() {
  return table<weft_comm_services>(WEFT_COMM_SERVICES);
}
const weft_memory_services& memory_services() {
  return table<weft_memory_services>(WEFT_MEMORY_SERVICES);
}
const weft_step_services& the_step_services() {
  return table<weft_step_services>(WEFT_STEP_SERVICES);
}
const weft_publish_services& publish_services() {
  return table<weft_publish_services>(WEFT_PUBLISH_SERVICES);
}

void call(const std::function<weft_status(weft_error*)>& function) {
  ErrorSink error;
  error.check(function(error));
}

std::shared_ptr<Training> make_training(World world, std::shared_ptr<nn::Model> model, Recorder& recorder,
                                        TrainingOptions options, const Bindings::MakePlan& plan,
                                        std::shared_ptr<ParameterSource> source) {
  making = &recorder;
  recorder.use_run_step();
  return std::make_shared<Training>(std::move(world), std::move(model), &recorder.api(), "recorder",
                                    std::vector<weft_kv>(), options, std::move(source), plan);
}

std::shared_ptr<Training> make_single(std::shared_ptr<nn::Model> model, TrainingOptions options) {
  return std::make_shared<Training>(launch(0, 1, "localhost", 1), std::move(model), &single_rank(), "none",
                                    std::vector<weft_kv>(), options, nullptr);
}

std::map<std::string, at::Tensor> gradients_of(Training& training) {
  std::map<std::string, at::Tensor> found;
  for (const Shard& shard : training.bindings().publish(WEFT_REASON_CHECK))
    found[shard.param->name] = shard.gradient.defined() ? shard.gradient.clone() : at::Tensor();
  return found;
}

std::map<std::string, at::Tensor> values_of(Training& training) {
  std::map<std::string, at::Tensor> found;
  for (const Shard& shard : training.bindings().publish(WEFT_REASON_CHECK))
    found[shard.param->name] = shard.value.clone();
  return found;
}

std::vector<std::string> backward_events(const std::vector<std::string>& units) {
  std::vector<std::string> events;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    events.push_back("before_backward " + *unit);
    events.push_back("after_backward " + *unit);
  }
  return events;
}

}  // namespace weft::test
