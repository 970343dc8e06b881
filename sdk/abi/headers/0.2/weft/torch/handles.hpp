// The host's services for strategies, as C++ classes over its tables. Contracts: weft/training.h. Copyable
// classes hold a pointer; a State owns its tensors.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator.hpp"

namespace weft::plugin {
inline namespace v0 {

// A unit of the model.
class Unit;

// A parameter of the model. See weft_model_services.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(weft_param* param) : param_(param) {}
  weft_param* get() const { return param_; }
  bool operator==(const Parameter& other) const { return param_ == other.param_; }

  weft_param_info info() const {
    weft_param_info info{};
    info.struct_size = sizeof(info);
    check(host.model->param_info(param_, &info, current_error));
    return info;
  }
  // Returns the tensor that the layer uses. Its storage is the one that bind() gave it.
  TensorView tensor() const { return plugin::tensor(host.model->param_tensor(param_)); }
#ifdef WEFT_TORCH_MIN
  // Returns the gradient into which autograd accumulates; undefined if there is none.
  Tensor gradient() const {
    const weft_at_tensor* const gradient = host.model->param_gradient(param_);
    return gradient == nullptr ? Tensor() : plugin::tensor(gradient);
  }
#else
  // Returns .grad, into which autograd accumulates. It may be taken, replaced or reset.
  Tensor& gradient() const {
    return const_cast<Tensor&>(tensor()).mutable_grad();
  }
#endif
  // Replaces the gradient; an undefined tensor takes it away.
  void set_gradient(const Tensor& gradient) const {
    check(host.model->param_set_gradient(param_, gradient.defined() ? handle(gradient) : nullptr,
                                         current_error));
  }
  // Binds `storage`, which has as many elements as this rank's part, in the working dtype.
  void bind(const Tensor& storage) const {
    const weft_param_info i = info();
    const Tensor part = shaped(storage, i.local, i.ndim);
    check(host.model->param_bind(param_, handle(part), current_error));
  }
  // Reads elements [begin, begin + destination.numel()) of this rank's flattened part into `destination`.
  void read(int64_t begin, const Tensor& destination) const {
    check(host.model->param_read(param_, begin, destination.numel(), handle(destination), current_error));
  }
  inline bool used_by(Unit unit) const;

 private:
  weft_param* param_ = nullptr;
};

// A unit of the model.
class Unit {
 public:
  Unit() = default;
  explicit Unit(weft_unit* unit) : unit_(unit) {}
  weft_unit* get() const { return unit_; }
  uint32_t index() const { return host.model->unit_index(unit_); }
  std::string name() const { return text(host.model->unit_name(unit_)); }
  std::vector<Parameter> parameters() const {
    std::vector<weft_param*> params(host.model->unit_params(unit_, nullptr, 0));
    host.model->unit_params(unit_, params.data(), static_cast<uint32_t>(params.size()));
    return std::vector<Parameter>(params.begin(), params.end());
  }

 private:
  weft_unit* unit_ = nullptr;
};

bool Parameter::used_by(Unit unit) const {
  return host.model->param_used_by(param_, unit.get()) != 0;
}

// The units, parameters, buffers and communicators of one model.
class Training {
 public:
  Training() = default;
  explicit Training(weft_training* training) : training_(training) {}
  std::vector<Unit> units() const {
    std::vector<Unit> units;
    for (uint32_t i = 0; i < host.model->unit_count(training_); ++i)
      units.emplace_back(host.model->unit(training_, i));
    return units;
  }
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> params;
    for (uint32_t i = 0; i < host.model->param_count(training_); ++i)
      params.emplace_back(host.model->param(training_, i));
    return params;
  }
  std::vector<Tensor> buffers() const {
    std::vector<Tensor> buffers;
    for (uint32_t i = 0; i < host.model->buffer_count(training_); ++i)
      buffers.push_back(tensor(host.model->buffer_tensor(training_, i)));
    return buffers;
  }
  // Returns the communicator along a set of axes: axes(), a parameter's gradient_axes, ...
  Communicator communicator(uint32_t axes) const { return Communicator(host.comm->comm(training_, axes)); }
  // Returns a set of axes by its name: "samples", "tensor", ... See weft_comm_services::axes.
  uint32_t axes(std::string_view name) const {
    uint32_t axes = 0;
    check(host.comm->axes(training_, str(name), &axes, current_error));
    return axes;
  }
  // Returns the communicator of the ranks whose gradients are summed.
  Communicator samples() const { return communicator(axes("samples")); }

 private:
  weft_training* training_ = nullptr;
};

// The mesh while a strategy describes it. Axes are those of weft/mesh.h, by name.
class Mesh {
 public:
  explicit Mesh(weft_mesh* mesh) : mesh_(mesh) {}
  uint32_t size(std::string_view axis) const { return find(axis).size; }
  void set_size(std::string_view axis, uint32_t size) const {
    check(host.mesh->set_size(mesh_, find(axis).index, size, current_error));
  }
  // Returns how many ranks the axes that the host has set leave for the others.
  uint32_t ranks_left() const { return host.mesh->ranks_left(mesh_); }

 private:
  weft_axis find(std::string_view name) const {
    weft_axis axis{};
    axis.struct_size = sizeof(axis);
    check(host.mesh->find(mesh_, str(name), &axis, current_error));
    return axis;
  }
  weft_mesh* mesh_;
};

// Named tensors that pass between units.
class State {
 public:
  State() : state_(host.step->state_create()) {}
  explicit State(weft_state* own) : state_(own) {}
  State(State&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  State& operator=(State&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~State() {
    if (state_ != nullptr) host.step->state_destroy(state_);
  }
  weft_state* get() const { return state_; }
  uint32_t size() const { return host.step->state_size(state_); }
  std::string name(uint32_t index) const { return text(host.step->state_name(state_, index)); }
  TensorView tensor(uint32_t index) const { return plugin::tensor(host.step->state_tensor(state_, index)); }
  void set(std::string_view name, const Tensor& value) {
    check(host.step->state_set(state_, str(name), handle(value), current_error));
  }

 private:
  weft_state* state_;
};

// One step, for a strategy that schedules units and micro-batches itself. See weft_step_services.
class Step {
 public:
  explicit Step(weft_step* step) : step_(step) {}
  uint32_t micro_count() const { return host.step->micro_count(step_); }
  bool training() const { return host.step->training(step_) != 0; }
  State input(uint32_t micro) const {
    weft_state* state = nullptr;
    check(host.step->input(step_, micro, &state, current_error));
    return State(state);
  }
  State boundary(uint32_t micro, Unit entering) const {
    weft_state* state = nullptr;
    check(host.step->boundary(step_, micro, entering.get(), &state, current_error));
    return State(state);
  }
  void forward(uint32_t micro, Unit unit, State& state) const {
    check(host.step->forward(step_, micro, unit.get(), state.get(), current_error));
  }
  void finish(uint32_t micro, State& last) const {
    check(host.step->finish(step_, micro, last.get(), current_error));
  }
  void backward(uint32_t micro) const {
    check(host.step->backward(step_, micro, nullptr, nullptr, current_error));
  }
  void backward(uint32_t micro, State& outputs, State& gradients) const {
    check(host.step->backward(step_, micro, outputs.get(), gradients.get(), current_error));
  }

 private:
  weft_step* step_;
};

// Receives the shards that a strategy publishes.
class ShardSink {
 public:
  ShardSink(weft_shard_sink* sink, uint32_t reason) : sink_(sink), reason_(reason) {}
  // Returns why the host asks: WEFT_REASON_*.
  uint32_t reason() const { return reason_; }
  // Publishes elements [begin, begin + value.numel()) of this rank's flattened part of `parameter`.
  // `gradient` and `working` may be undefined (weft_shard).
  void shard(Parameter parameter, int64_t begin, const Tensor& value, const Tensor& gradient,
             uint32_t partition_axes, uint32_t flags = 0, const Tensor& working = Tensor()) const {
    const weft_shard record{
        sizeof(weft_shard), parameter.get(), begin,
        value.numel(),      handle(value),   gradient.defined() ? handle(gradient) : nullptr,
        partition_axes,     flags,           working.defined() ? handle(working) : nullptr};
    check(host.publish->shard(sink_, &record, current_error));
  }
  // Gives the host a tensor of the strategy's own for the same kind of range: a training state keeps it under
  // this name, and fills it when the job resumes (weft_publish_services::kept).
  void kept(std::string_view name, Parameter parameter, int64_t begin, const Tensor& value,
            uint32_t partition_axes) const {
    const weft_shard record{sizeof(weft_shard),
                            parameter.get(),
                            begin,
                            value.numel(),
                            handle(value),
                            nullptr,
                            partition_axes,
                            0,
                            nullptr};
    check(host.publish->kept(sink_, {name.data(), name.size()}, &record, current_error));
  }

 private:
  weft_shard_sink* sink_;
  uint32_t reason_;
};

}  // namespace v0
}  // namespace weft::plugin
