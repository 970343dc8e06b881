#include "training/services.hpp"

#include <ATen/native/Resize.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <limits>

#include "error_sink.hpp"
#include "memory/services.hpp"
#include "training/part.hpp"
#include "training/publish.hpp"
#include "training/training.hpp"
#include "weft/torch/dtypes.hpp"

struct weft_work {
  weft::Work work;
};

namespace weft {

namespace {

const at::Tensor& tensor_of(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}
const weft_at_tensor* handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}

class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(weft_param* param) : param_(param) {}
  void operator()(const torch::autograd::Variable&) override {
    param_->training->fire_gradient_ready(*param_);
  }

 private:
  weft_param* param_;
};

}  // namespace

struct Services {
  static weft_status param_info(weft_param* param, weft_param_info* out, weft_error* error) {
    return guarded(error, [&] {
      if (out->struct_size < sizeof(weft_param_info))
        throw Error(WEFT_INVALID_ARGUMENT, "weft_param_info of " + std::to_string(out->struct_size) +
                                               " bytes is smaller than the host's " +
                                               std::to_string(sizeof(weft_param_info)));
      out->name = borrow(param->name);
      out->index = param->index;
      out->frozen = param->frozen;
      out->first_unit = param->units.front();
      out->num_units = static_cast<uint32_t>(param->units.size());
      out->partition_axes = param->partition_axes;
      out->gradient_axes = param->gradient_axes;
      out->working_dtype = dtype_code(param->tensor.scalar_type());
      out->master_dtype = dtype_code(param->master_dtype());
      out->ndim = static_cast<uint32_t>(param->shape.size());
      out->reserved = 0;
      std::copy(param->shape.begin(), param->shape.end(), out->shape);
      std::copy(param->local.begin(), param->local.end(), out->local);
      out->count = param->count();
    });
  }

  static weft_status param_read(weft_param* param, int64_t begin, int64_t count,
                                const weft_at_tensor* destination, weft_error* error) {
    return guarded(error, [&] {
      const at::Tensor& to = tensor_of(destination);
      if (begin < 0 || count < 0 || begin > param->count() || count > param->count() - begin ||
          to.numel() != count || !to.is_contiguous())
        throw Error(WEFT_OUT_OF_RANGE,
                    "read of " + std::to_string(count) + " elements from " + std::to_string(begin) +
                        " on of " + param->name + " (" + std::to_string(param->count()) + " elements) into " +
                        std::to_string(to.numel()) + " elements: must fit and be contiguous");
      if (count == 0) return;
      at::NoGradGuard no_grad;
      const Training& training = *param->training;
      read_initial(*param, training.model(), training.options().seed, training.source_.get(), begin, count,
                   to);
    });
  }

  static weft_status param_bind(weft_param* param, const weft_at_tensor* storage, weft_error* error) {
    return guarded(error, [&] {
      if (!tensor_of(storage).defined() || !tensor_of(storage).device().is_cpu())
        throw Error(WEFT_INVALID_ARGUMENT, "storage for " + param->name + " must be a tensor on the CPU");
      const at::Tensor value = tensor_of(storage).variable_data();
      if (param->bound)
        throw Error(WEFT_FAILED_PRECONDITION, "parameter " + param->name + " has its storage already");
      if (value.sizes() != at::IntArrayRef(param->local) ||
          value.scalar_type() != param->tensor.scalar_type())
        throw Error(WEFT_INVALID_ARGUMENT,
                    fmt::format("storage for {} has shape [{}] of {}, must be [{}] of {}", param->name,
                                fmt::join(value.sizes(), ", "), c10::toString(value.scalar_type()),
                                fmt::join(param->local, ", "), c10::toString(param->tensor.scalar_type())));
      bind_storage(*param, value);
      if (!param->frozen)
        torch::autograd::impl::set_post_acc_grad_hooks(param->tensor, std::make_unique<ReadyHook>(param));
      param->bound = true;
    });
  }

  static const weft_model_services* model() {
    static const weft_model_services table = [] {
      weft_model_services t{};
      t.struct_size = sizeof(t);
      t.unit_count = [](weft_training* training) { return static_cast<uint32_t>(training->units().size()); };
      t.unit = [](weft_training* training, uint32_t index) {
        return index < training->units().size() ? training->units()[index].get() : nullptr;
      };
      t.unit_index = [](weft_unit* unit) { return unit->index; };
      t.unit_name = [](weft_unit* unit) { return borrow(unit->unit->name()); };
      t.unit_params = [](weft_unit* unit, weft_param** out, uint32_t capacity) {
        for (uint32_t i = 0; i < capacity && i < unit->params.size(); ++i) out[i] = unit->params[i];
        return static_cast<uint32_t>(unit->params.size());
      };
      t.param_count = [](weft_training* training) {
        return static_cast<uint32_t>(training->params().size());
      };
      t.param = [](weft_training* training, uint32_t index) {
        return index < training->params().size() ? training->params()[index].get() : nullptr;
      };
      t.param_info = &param_info;
      t.param_used_by = [](weft_param* param, weft_unit* unit) -> uint32_t {
        return std::find(param->units.begin(), param->units.end(), unit->index) != param->units.end();
      };
      t.param_read = &param_read;
      t.param_bind = &param_bind;
      t.param_tensor = [](weft_param* param) { return handle_of(param->tensor); };
      t.buffer_count = [](weft_training* training) {
        return static_cast<uint32_t>(training->buffers_.size());
      };
      t.buffer_name = [](weft_training* training, uint32_t index) {
        return index < training->buffers_.size() ? borrow(training->buffers_[index].first)
                                                 : weft_str{nullptr, 0};
      };
      t.buffer_tensor = [](weft_training* training, uint32_t index) {
        return index < training->buffers_.size() ? handle_of(training->buffers_[index].second) : nullptr;
      };
      return t;
    }();
    return &table;
  }

  template <class Start>
  static weft_status start(weft_work** own, weft_error* error, const Start& body) {
    return guarded(error, [&] { *own = new weft_work{body()}; });
  }

  static weft_status all_to_all(weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input,
                                const int64_t* output_splits, const int64_t* input_splits, weft_work** own,
                                weft_error* error) {
    return start(own, error, [&] {
      const auto splits = [&](const int64_t* s) {
        return s == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(s, s + comm->communicator.size());
      };
      return comm->communicator.all_to_all(tensor_of(output), tensor_of(input), splits(output_splits),
                                           splits(input_splits));
    });
  }

  static const weft_comm_services* comm() {
    static const weft_comm_services table = [] {
      weft_comm_services t{};
      t.struct_size = sizeof(t);
      t.comm = [](weft_training* training, uint32_t axes) { return training->comm(axes); };
      t.rank = [](weft_comm* c) { return static_cast<uint32_t>(c->communicator.rank()); };
      t.size = [](weft_comm* c) { return static_cast<uint32_t>(c->communicator.size()); };
      t.subset = [](weft_comm* c, const uint32_t* members, uint32_t num_members, weft_comm** out,
                    weft_error* error) {
        return guarded(error, [&] {
          Communicator made = c->communicator.subset({members, members + num_members});
          *out = nullptr;
          if (!made) return;
          c->subsets.push_back(std::make_unique<weft_comm>());
          c->subsets.back()->communicator = std::move(made);
          *out = c->subsets.back().get();
        });
      };
      t.all_reduce = [](weft_comm* c, const weft_at_tensor* inout, uint32_t op, weft_work** own,
                        weft_error* error) {
        return start(own, error, [&] {
          const bool control = (op & WEFT_REDUCE_CONTROL) != 0;
          return c->communicator.all_reduce(
              tensor_of(inout), static_cast<ReduceOp>(op & ~uint32_t{WEFT_REDUCE_CONTROL}), control);
        });
      };
      t.all_gather = [](weft_comm* c, const weft_at_tensor* output, const weft_at_tensor* input,
                        weft_work** own, weft_error* error) {
        return start(own, error,
                     [&] { return c->communicator.all_gather(tensor_of(output), tensor_of(input)); });
      };
      t.reduce_scatter = [](weft_comm* c, const weft_at_tensor* output, const weft_at_tensor* input,
                            uint32_t op, weft_work** own, weft_error* error) {
        return start(own, error, [&] {
          return c->communicator.reduce_scatter(tensor_of(output), tensor_of(input),
                                                static_cast<ReduceOp>(op));
        });
      };
      t.broadcast = [](weft_comm* c, const weft_at_tensor* inout, uint32_t root, weft_work** own,
                       weft_error* error) {
        return start(own, error,
                     [&] { return c->communicator.broadcast(tensor_of(inout), static_cast<int>(root)); });
      };
      t.all_to_all = &all_to_all;
      t.send = [](weft_comm* c, const weft_at_tensor* value, uint32_t to, uint32_t tag, weft_work** own,
                  weft_error* error) {
        return start(own, error,
                     [&] { return c->communicator.send(tensor_of(value), static_cast<int>(to), tag); });
      };
      t.recv = [](weft_comm* c, const weft_at_tensor* value, uint32_t from, uint32_t tag, weft_work** own,
                  weft_error* error) {
        return start(own, error,
                     [&] { return c->communicator.recv(tensor_of(value), static_cast<int>(from), tag); });
      };
      t.barrier = [](weft_comm* c, weft_error* error) {
        return guarded(error, [&] { c->communicator.barrier(); });
      };
      t.wait = [](weft_work* work, weft_error* error) { return guarded(error, [&] { work->work.wait(); }); };
      t.release = [](weft_work* work) { delete work; };
      return t;
    }();
    return &table;
  }

  static const weft_memory_services* memory() {
    static const weft_memory_services table = {
        sizeof(weft_memory_services), [](const weft_at_tensor* handle, int64_t elements, weft_error* error) {
          return guarded(error, [&] {
            const at::Tensor& tensor = tensor_of(handle);
            if (elements < 0 ||
                elements > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(tensor.element_size()))
              throw Error(WEFT_INVALID_ARGUMENT,
                          "a storage cannot have " + std::to_string(elements) + " elements");
            at::native::resize_bytes_cpu(tensor.storage().unsafeGetStorageImpl(),
                                         static_cast<size_t>(elements) * tensor.element_size());
          });
        }};
    return &table;
  }

  static const weft_publish_services* publish() {
    static const weft_publish_services table = {
        sizeof(weft_publish_services), [](weft_shard_sink* sink, const weft_shard* shard, weft_error* error) {
          return guarded(error, [&] {
            if (shard->value == nullptr)
              throw Error(WEFT_INVALID_ARGUMENT, "a published range has no values");
            add_shard(*sink, *shard, tensor_of(shard->value),
                      shard->gradient != nullptr ? tensor_of(shard->gradient) : at::Tensor());
          });
        }};
    return &table;
  }
};

const void* training_services(weft_str id) {
  const std::string_view name(id.data, id.size);
  if (name == WEFT_MODEL_SERVICES) return Services::model();
  if (name == WEFT_COMM_SERVICES) return Services::comm();
  if (name == WEFT_MEMORY_SERVICES) return Services::memory();
  if (name == WEFT_POOL_SERVICES) return pool_services();
  if (name == WEFT_STEP_SERVICES) return step_services();
  if (name == WEFT_PUBLISH_SERVICES) return Services::publish();
  return nullptr;
}

}  // namespace weft
