// C++ values over the host's tables, for strategies. Copyable ones are a pointer; Work and State own what
// they hold. A call that fails throws the status; the text already stands in the error sink of the hook that
// is running.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../error.hpp"
#include "../host.h"
#include "../strategy.h"

namespace weft {
inline namespace sdk_v0 {

// The host's tables, fetched once by the plugin's entry; the sink of the running call.
struct HostTables {
  const weft_host* host = nullptr;
  const weft_model_services* model = nullptr;
  const weft_memory_services* memory = nullptr;
  const weft_comm_services* comm = nullptr;
  const weft_step_services* step = nullptr;
  const weft_publish_services* publish = nullptr;
};
inline HostTables host;
inline thread_local weft_error* current_error = nullptr;

// Thrown when a host call failed: its text is in the sink already.
struct HostFailure {
  weft_status status;
};
inline void check(weft_status status) {
  if (status != WEFT_OK) throw HostFailure{status};
}

inline weft_str str(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string text(weft_str value) {
  return {value.data, value.size};
}
inline const weft_at_tensor* handle(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}
inline const at::Tensor& tensor(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

inline at::ScalarType scalar_type(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F64:
      return at::kDouble;
    case WEFT_F32:
      return at::kFloat;
    case WEFT_F16:
      return at::kHalf;
    case WEFT_BF16:
      return at::kBFloat16;
    default:
      throw Error(WEFT_UNIMPLEMENTED,
                  "dtype " + std::to_string(dtype) + " is no floating-point type of this SDK");
  }
}

// Resizes the storage behind a tensor and its views to `elements` of its dtype; 0 frees the memory. Sizes
// stay.
inline void resize_storage(const at::Tensor& tensor, int64_t elements) {
  check(host.memory->resize_storage(handle(tensor), elements, current_error));
}

// A collective under way. Destroying it neither waits nor cancels.
class Work {
 public:
  Work() = default;
  explicit Work(weft_work* work) : work_(work) {}
  Work(Work&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  ~Work() { host.comm->release(work_); }
  explicit operator bool() const { return work_ != nullptr; }
  // Until the tensors hold the result. Does nothing if there is no work.
  void wait() {
    if (work_ == nullptr) return;
    check(host.comm->wait(work_, current_error));
    host.comm->release(std::exchange(work_, nullptr));
  }

 private:
  weft_work* work_ = nullptr;
};

class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(weft_comm* comm) : comm_(comm) {}
  explicit operator bool() const { return comm_ != nullptr; }
  uint32_t rank() const { return host.comm->rank(comm_); }
  uint32_t size() const { return host.comm->size(comm_); }

  // `op`: WEFT_REDUCE_*, with WEFT_REDUCE_CONTROL or-ed to it for bookkeeping.
  Work all_reduce(const at::Tensor& inout, uint32_t op = WEFT_REDUCE_SUM) const {
    return start(host.comm->all_reduce, handle(inout), op);
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input) const {
    return start(host.comm->all_gather, handle(output), handle(input));
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                      uint32_t op = WEFT_REDUCE_SUM) const {
    return start(host.comm->reduce_scatter, handle(output), handle(input), op);
  }
  Work broadcast(const at::Tensor& inout, uint32_t root) const {
    return start(host.comm->broadcast, handle(inout), root);
  }
  // Splits are elements of the first dimension, one per rank; empty: equal parts.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input,
                  const std::vector<int64_t>& output_splits = {},
                  const std::vector<int64_t>& input_splits = {}) const {
    const auto splits = [this](const std::vector<int64_t>& s) {
      if (!s.empty() && s.size() != size())
        throw Error(WEFT_INVALID_ARGUMENT, "all_to_all: " + std::to_string(s.size()) +
                                               " splits for a group of " + std::to_string(size()) + " ranks");
      return s.empty() ? nullptr : s.data();
    };
    return start(host.comm->all_to_all, handle(output), handle(input), splits(output_splits),
                 splits(input_splits));
  }
  Work send(const at::Tensor& value, uint32_t to, uint32_t tag) const {
    return start(host.comm->send, handle(value), to, tag);
  }
  Work recv(const at::Tensor& value, uint32_t from, uint32_t tag) const {
    return start(host.comm->recv, handle(value), from, tag);
  }
  void barrier() const { check(host.comm->barrier(comm_, current_error)); }
  Communicator subset(const std::vector<uint32_t>& members) const {
    weft_comm* out = nullptr;
    check(
        host.comm->subset(comm_, members.data(), static_cast<uint32_t>(members.size()), &out, current_error));
    return Communicator(out);
  }

 private:
  template <class Function, class... Arguments>
  Work start(Function function, Arguments... arguments) const {
    weft_work* work = nullptr;
    check(function(comm_, arguments..., &work, current_error));
    return Work(work);
  }
  weft_comm* comm_ = nullptr;
};

class Unit;

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
  // The layer's tensor. Its storage is what bind() gave it.
  const at::Tensor& tensor() const { return sdk_v0::tensor(host.model->param_tensor(param_)); }
  // What autograd accumulates into; may be taken, replaced or reset.
  at::Tensor& gradient() const { return const_cast<at::Tensor&>(tensor()).mutable_grad(); }
  // `storage`: as many elements as the parameter, in its working dtype; viewed in its shape.
  void bind(const at::Tensor& storage) const {
    const weft_param_info i = info();
    const at::Tensor shaped = storage.view(at::IntArrayRef(i.local, i.local_ndim));
    check(host.model->param_bind(param_, handle(shaped), current_error));
  }
  // Values [begin, begin + destination.numel()) of this rank's box.
  void read(int64_t begin, const at::Tensor& destination) const {
    check(host.model->param_read(param_, begin, destination.numel(), handle(destination), current_error));
  }
  inline bool used_by(Unit unit) const;

 private:
  weft_param* param_ = nullptr;
};

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
  std::vector<at::Tensor> buffers() const {
    std::vector<at::Tensor> buffers;
    for (uint32_t i = 0; i < host.model->buffer_count(training_); ++i)
      buffers.push_back(tensor(host.model->buffer_tensor(training_, i)));
    return buffers;
  }
  // The group along a set of axes: 1u << WEFT_AXIS_DATA, ...
  Communicator communicator(uint32_t axes) const { return Communicator(host.comm->comm(training_, axes)); }

 private:
  weft_training* training_ = nullptr;
};

// Named tensors between units.
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
  const at::Tensor& tensor(uint32_t index) const {
    return sdk_v0::tensor(host.step->state_tensor(state_, index));
  }
  void set(std::string_view name, const at::Tensor& value) {
    check(host.step->state_set(state_, str(name), handle(value), current_error));
  }

 private:
  weft_state* state_;
};

// One step of the strategy's own schedule; see weft_step_services.
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

// Takes the records of publish.
class ShardSink {
 public:
  explicit ShardSink(weft_shard_sink* sink) : sink_(sink) {}
  // Elements [begin, begin + value.numel()) of this rank's box of `parameter`; `gradient` may be undefined.
  void shard(Parameter parameter, int64_t begin, const at::Tensor& value, const at::Tensor& gradient,
             uint32_t partition_axes, uint32_t flags = 0) const {
    const weft_shard record{sizeof(weft_shard),
                            parameter.get(),
                            begin,
                            value.numel(),
                            handle(value),
                            gradient.defined() ? handle(gradient) : nullptr,
                            partition_axes,
                            flags};
    check(host.publish->shard(sink_, &record, current_error));
  }

 private:
  weft_shard_sink* sink_;
};

}  // namespace sdk_v0
}  // namespace weft
