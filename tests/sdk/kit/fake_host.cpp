#include "sdk/kit/fake_host.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>

#include <weft/torch/host_tables.hpp>
#include <weft/torch/pools.hpp>

namespace weft::test {

using namespace plugin;

namespace {

std::vector<std::string> collectives;

constexpr uint32_t kSampleAxes = 1u << axis::kData | 1u << axis::kReplica;

const at::Tensor& of(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

weft_status done(weft_work** own) {
  *own = nullptr;
  return WEFT_OK;
}

weft_status started(const char* name, const at::Tensor& input, weft_work** own) {
  collectives.push_back(std::string(name) + " " + std::to_string(input.numel()));
  return done(own);
}

weft_status param_info(weft_param* param, weft_param_info* out, weft_error*) {
  out->name = str(param->name);
  out->index = param->index;
  out->frozen = param->frozen;
  out->first_unit = param->units.front();
  out->num_units = static_cast<uint32_t>(param->units.size());
  out->gradient_axes = kSampleAxes | param->more_gradient_axes;
  out->working_dtype = out->master_dtype = WEFT_F32;
  out->ndim = 1;
  out->shape[0] = out->local[0] = out->count = param->count;
  return WEFT_OK;
}

weft_status param_read(weft_param* param, int64_t begin, int64_t count, const weft_at_tensor* destination,
                       weft_error*) {
  const at::NoGradGuard no_grad;
  const at::Tensor to = of(destination);
  for (int64_t i = 0; i < count; ++i) to.select(0, i).fill_(initial_value(*param, begin + i));
  return WEFT_OK;
}

weft_status param_bind(weft_param* param, const weft_at_tensor* storage, weft_error*) {
  param->tensor = of(storage).detach();
  return WEFT_OK;
}

uint32_t unit_params(weft_unit*, weft_param**, uint32_t);

const weft_model_services kModel = {
    sizeof(weft_model_services),
    [](weft_training* t) { return static_cast<uint32_t>(t->units.size()); },
    [](weft_training* t, uint32_t index) { return &t->units[index]; },
    [](weft_unit* unit) { return unit->index; },
    [](weft_unit*) { return str("unit"); },
    &unit_params,
    [](weft_training* t) { return static_cast<uint32_t>(t->params.size()); },
    [](weft_training* t, uint32_t index) { return &t->params[index]; },
    &param_info,
    [](weft_param* param, weft_unit* unit) -> uint32_t {
      return std::count(param->units.begin(), param->units.end(), unit->index) > 0;
    },
    &param_read,
    &param_bind,
    [](weft_param* param) { return reinterpret_cast<const weft_at_tensor*>(&param->tensor); },
    [](weft_param* param) { return reinterpret_cast<const weft_at_tensor*>(&param->tensor.grad()); },
    [](weft_param* param, const weft_at_tensor* gradient, weft_error*) {
      param->tensor.mutable_grad() = gradient == nullptr ? at::Tensor() : of(gradient);
      return WEFT_OK;
    },
    [](weft_training* t) { return static_cast<uint32_t>(t->buffers.size()); },
    [](weft_training*, uint32_t) { return str("buffer"); },
    [](weft_training* t, uint32_t index) {
      return reinterpret_cast<const weft_at_tensor*>(&t->buffers[index]);
    }};

weft_training* current = nullptr;  // unit_params gets no training

uint32_t unit_params(weft_unit* unit, weft_param** out, uint32_t capacity) {
  uint32_t found = 0;
  for (weft_param& param : current->params)
    if (kModel.param_used_by(&param, unit) != 0 && found++ < capacity) out[found - 1] = &param;
  return found;
}

const weft_memory_services kMemory = {
    sizeof(weft_memory_services), [](const weft_at_tensor* tensor, int64_t elements, weft_error*) {
      c10::StorageImpl* storage = of(tensor).storage().unsafeGetStorageImpl();
      const size_t bytes = static_cast<size_t>(elements) * of(tensor).element_size();
      storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(bytes));
      storage->set_nbytes(bytes);
      return WEFT_OK;
    }};

weft_status axes_of(weft_training*, weft_str name, uint32_t* out, weft_error*) {
  constexpr const char* kNames[] = {"data",    "replica",    "stages",        "tensor",
                                    "experts", "tensor.row", "tensor.column", "tensor.depth"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), text(name));
  if (text(name) != "samples" && found == std::end(kNames)) return WEFT_NOT_FOUND;
  *out = found == std::end(kNames) ? kSampleAxes : 1u << (found - std::begin(kNames));
  return WEFT_OK;
}

const weft_comm_services kComm = {
    sizeof(weft_comm_services),
    &axes_of,
    [](weft_training* t, uint32_t axes) {
      current = t;
      return (axes & 1u << axis::kData) != 0      ? &t->data
             : (axes & 1u << axis::kReplica) != 0 ? &t->replicas
             : (axes & 1u << axis::kTensor) != 0  ? &t->tensor
                                                  : &t->alone;
    },
    [](weft_comm* comm) { return comm->rank; },
    [](weft_comm* comm) { return comm->size; },
    nullptr,
    [](weft_comm* comm, const weft_at_tensor* inout, uint32_t op, weft_work** own, weft_error*) {
      const at::NoGradGuard no_grad;
      if (op == WEFT_REDUCE_SUM) of(inout).mul_(comm->size);
      return started("all_reduce", of(inout), own);
    },
    [](weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input, weft_work** own,
       weft_error*) {
      const at::NoGradGuard no_grad;
      const at::Tensor own_part = of(input).clone();
      of(output).view({comm->size, -1}).copy_(own_part.unsqueeze(0));
      return started("all_gather", own_part, own);
    },
    [](weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input, uint32_t, weft_work** own,
       weft_error*) {
      const at::NoGradGuard no_grad;
      of(output).copy_(of(input).view({comm->size, -1})[comm->rank].clone() * comm->size);
      return started("reduce_scatter", of(input), own);
    },
    [](weft_comm*, const weft_at_tensor* inout, uint32_t, weft_work** own, weft_error*) {
      return started("broadcast", of(inout), own);
    },
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    [](weft_work*, weft_error*) { return WEFT_OK; },
    [](weft_work*) {}};

const weft_publish_services kPublish = {
    sizeof(weft_publish_services),
    [](weft_shard_sink* sink, const weft_shard* shard, weft_error*) {
      sink->records.push_back({shard->param, shard->begin, of(shard->value),
                               shard->gradient != nullptr ? of(shard->gradient) : at::Tensor(),
                               shard->partition_axes});
      return WEFT_OK;
    },
    nullptr};

const weft_pool_services kPools = {
    sizeof(weft_pool_services),
    nullptr,
    [] {},
    [](uint32_t, uint32_t dtype, int64_t elements, weft_at_tensor* out, weft_error*) {
      *reinterpret_cast<at::Tensor*>(out) = at::empty({elements}, scalar_type(dtype));
      return WEFT_OK;
    },
    [](const weft_at_tensor* to, const weft_at_tensor* from, weft_error*) {
      const at::NoGradGuard no_grad;
      of(to).copy_(of(from));
      return WEFT_OK;
    },
    [](uint32_t, weft_error*) { return WEFT_OK; },
    [](weft_work** own, weft_error*) { return done(own); },
    [](weft_error*) { return WEFT_OK; }};

const void* extension(weft_str id) {
  static const weft_step_services step{};
  static const weft_mesh_services mesh{};
  const std::string name = text(id);
  if (name == WEFT_MODEL_SERVICES) return &kModel;
  if (name == WEFT_MEMORY_SERVICES) return &kMemory;
  if (name == WEFT_COMM_SERVICES) return &kComm;
  if (name == WEFT_STEP_SERVICES) return &step;
  if (name == WEFT_MESH_SERVICES) return &mesh;
  if (name == WEFT_PUBLISH_SERVICES) return &kPublish;
  return name == WEFT_POOL_SERVICES ? &kPools : nullptr;
}

}  // namespace

float initial_value(const weft_param& param, int64_t index) {
  return 100.0f * static_cast<float>(param.index + 1) + static_cast<float>(index);
}

void use_fake_host() {
  static const weft_host table = {sizeof(weft_host), [](weft_error*, weft_status, weft_str) {},
                                  [](uint32_t, weft_str, weft_str) {}, &extension};
  if (!fetch_tables(&table)) throw std::logic_error("the fake host lacks a table");
}

std::vector<std::string> take_collectives() {
  return std::exchange(collectives, {});
}

weft_training model_of(const std::vector<int64_t>& sizes, uint32_t rank, uint32_t ranks) {
  weft_training training;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    training.params.push_back({"p" + std::to_string(i), sizes[i], {i}, false, i, at::Tensor(), 0});
    training.units.push_back({i});
  }
  training.data = {rank, ranks};
  return training;
}

}  // namespace weft::test
