#include "training/services.hpp"

#include <limits>

#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "device/tensors.hpp"
#include "memory/services.hpp"
#include "training/checked_services.hpp"
#include "training/publish.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft {

namespace {

const at::Tensor& tensor_of(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}
const weft_at_tensor* handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}

}  // namespace

struct Services {
  // Returns the units on this rank that use a parameter of this rank.
  static std::vector<weft_unit*> users_of(const weft_param& param) {
    std::vector<weft_unit*> users;
    for (const uint32_t unit : param.units)
      if (weft_unit* user = param.bindings->units()[unit].get(); user->here) users.push_back(user);
    return users;
  }

  static weft_status param_info(weft_param* param, weft_param_info* out, weft_error* error) {
    return guarded(error, [&] {
      const std::vector<weft_unit*> users = users_of(*param);
      weft_param_info info = {};
      info.name = borrow(param->name);
      info.index = param->place;
      info.frozen = param->frozen;
      info.first_unit = users.front()->place;
      info.num_units = static_cast<uint32_t>(users.size());
      info.partition_axes = param->partition_axes;
      info.gradient_axes = param->gradient_axes;
      info.working_dtype = dtype_code(param->tensor.scalar_type());
      info.master_dtype = dtype_code(param->master_dtype());
      info.ndim = static_cast<uint32_t>(param->shape.size());
      info.across_stages = param->across_stages;
      std::copy(param->shape.begin(), param->shape.end(), info.shape);
      std::copy(param->local.begin(), param->local.end(), info.local);
      info.count = param->count();
      fill_out("weft_param_info", info, out);
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
      param->bindings->read(*param, begin, count, to);
    });
  }

  static weft_status param_bind(weft_param* param, const weft_at_tensor* storage, weft_error* error) {
    return guarded(error, [&] { param->bindings->bind(*param, tensor_of(storage)); });
  }

  static weft_status param_set_gradient(weft_param* param, const weft_at_tensor* gradient,
                                        weft_error* error) {
    return guarded(error, [&] {
      at::Tensor& held = param->tensor.mutable_grad();
      if (gradient == nullptr) return held.reset();
      const at::Tensor& given = tensor_of(gradient);
      const at::Tensor& value = param->tensor;
      if (given.sizes() != value.sizes() || given.scalar_type() != value.scalar_type() ||
          given.device() != value.device())
        throw Error(WEFT_INVALID_ARGUMENT, "the gradient given for " + param->name +
                                               " must have the shape, dtype and device of the parameter");
      held = given;
    });
  }

  static const weft_model_services* model() {
    static const weft_model_services table = [] {
      weft_model_services t{};
      t.struct_size = sizeof(t);
      t.unit_count = [](weft_training* training) {
        return static_cast<uint32_t>(training->own_units().size());
      };
      t.unit = [](weft_training* training, uint32_t index) {
        return index < training->own_units().size() ? training->own_units()[index] : nullptr;
      };
      t.unit_index = [](weft_unit* unit) { return unit->place; };
      t.unit_name = [](weft_unit* unit) { return borrow(unit->unit->name()); };
      t.unit_params = [](weft_unit* unit, weft_param** out, uint32_t capacity) {
        for (uint32_t i = 0; i < capacity && i < unit->params.size(); ++i) out[i] = unit->params[i];
        return static_cast<uint32_t>(unit->params.size());
      };
      t.param_count = [](weft_training* training) {
        return static_cast<uint32_t>(training->own_params().size());
      };
      t.param = [](weft_training* training, uint32_t index) {
        return index < training->own_params().size() ? training->own_params()[index] : nullptr;
      };
      t.param_info = &param_info;
      t.param_used_by = [](weft_param* param, weft_unit* unit) -> uint32_t {
        return std::find(param->units.begin(), param->units.end(), unit->index) != param->units.end();
      };
      t.param_read = &param_read;
      t.param_bind = &param_bind;
      t.param_tensor = [](weft_param* param) { return handle_of(param->tensor); };
      t.param_gradient = [](weft_param* param) {
        const at::Tensor& gradient = param->tensor.grad();
        return gradient.defined() ? handle_of(gradient) : nullptr;
      };
      t.param_set_gradient = &param_set_gradient;
      t.buffer_count = [](weft_training* training) {
        return static_cast<uint32_t>(training->buffers().size());
      };
      t.buffer_name = [](weft_training* training, uint32_t index) {
        return index < training->buffers().size() ? borrow(training->buffers()[index].first)
                                                  : weft_str{nullptr, 0};
      };
      t.buffer_tensor = [](weft_training* training, uint32_t index) {
        return index < training->buffers().size() ? handle_of(training->buffers()[index].second) : nullptr;
      };
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
            device::resize_storage(tensor, elements * static_cast<int64_t>(tensor.element_size()));
          });
        }};
    return &table;
  }

  static const weft_publish_services* publish() {
    static const weft_publish_services table = {
        sizeof(weft_publish_services),
        [](weft_shard_sink* sink, const weft_shard* shard, weft_error* error) {
          return guarded(error, [&] {
            require_size("weft_shard", shard->struct_size, WEFT_END_OF(weft_shard, flags));
            if (shard->value == nullptr)
              throw Error(WEFT_INVALID_ARGUMENT, "a published range has no values");
            const auto given = [](const weft_at_tensor* tensor) {
              return tensor != nullptr ? tensor_of(tensor) : at::Tensor();
            };
            const bool has_working = WEFT_HAS_FIELD(shard, weft_shard, working);
            add_shard(*sink, *shard, tensor_of(shard->value), given(shard->gradient),
                      has_working ? given(shard->working) : at::Tensor());
          });
        },
        [](weft_shard_sink* sink, weft_str name, const weft_shard* shard, weft_error* error) {
          return guarded(error, [&] {
            require_size("weft_shard", shard->struct_size, WEFT_END_OF(weft_shard, flags));
            if (shard->value == nullptr)
              throw Error(WEFT_INVALID_ARGUMENT, "a tensor that the strategy keeps has no numbers");
            add_kept(*sink, view(name), *shard, tensor_of(shard->value));
          });
        }};
    return &table;
  }
};

namespace {

const void* plain_services(std::string_view name) {
  if (name == WEFT_MODEL_SERVICES) return Services::model();
  if (name == WEFT_MESH_SERVICES) return mesh_services();
  if (name == WEFT_COMM_SERVICES) return comm_services();
  if (name == WEFT_MEMORY_SERVICES) return Services::memory();
  if (name == WEFT_POOL_SERVICES) return pool_services();
  if (name == WEFT_STEP_SERVICES) return step_services();
  if (name == WEFT_PUBLISH_SERVICES) return Services::publish();
  return nullptr;
}

}  // namespace

const void* training_services(weft_str id) {
  return checked_services(view(id), plain_services(view(id)));
}

}  // namespace weft
