// Trains with a strategy of tier stable on one rank, without the engine. Usage: strategy_host LIBRARY NAME
// MAJOR.MINOR. The loss of parameters w is their sum of squares, and an all-reduce doubles, as if a second
// rank had the same samples. Prints how far values are from those that follow; exit code 1 if one is wrong,
// or the libtorch in this process is another one.
#include <weft/pools.h>
#include <weft/strategy.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "stable_host.hpp"

using weft::test::Tensor;

struct weft_param {
  int64_t count;
  bool frozen;
  Tensor tensor, gradient;
  float initial(int64_t i) const { return static_cast<float>(count) / 8 - static_cast<float>(i) / 4; }
};
struct weft_training {
  std::vector<weft_param> params;
};
struct weft_shard_sink {
  std::vector<weft_shard> shards;
  std::vector<Tensor> values, gradients;
};
struct weft_comm {};
struct weft_work {};

namespace weft::test {
namespace {

constexpr double kRate = 0.1;
constexpr int kUpdates = 6;

int sums = 0;
weft_comm everyone;
weft_work work;

weft_status param_info(weft_param* param, weft_param_info* out, weft_error*) {
  out->name = text("w");
  out->frozen = param->frozen ? 1 : 0;
  out->gradient_axes = 1;
  out->working_dtype = out->master_dtype = WEFT_F32;
  out->ndim = 2;
  out->shape[0] = out->local[0] = 2;
  out->shape[1] = out->local[1] = param->count / 2;
  out->count = param->count;
  return WEFT_OK;
}

weft_status param_read(weft_param* param, int64_t begin, int64_t count, const weft_at_tensor* destination,
                       weft_error*) {
  float* const to = floats(share(destination));
  for (int64_t i = 0; i < count; ++i) to[i] = param->initial(begin + i);
  return WEFT_OK;
}

weft_model_services model_services() {
  weft_model_services table = {};
  table.struct_size = sizeof(table);
  table.param_count = [](weft_training* t) { return static_cast<uint32_t>(t->params.size()); };
  table.param = [](weft_training* t, uint32_t index) { return &t->params[index]; };
  table.param_info = param_info;
  table.param_read = param_read;
  table.param_bind = [](weft_param* param, const weft_at_tensor* storage, weft_error*) -> weft_status {
    param->tensor = share(storage);
    return WEFT_OK;
  };
  table.param_tensor = [](weft_param* param) -> const weft_at_tensor* { return handle(param->tensor); };
  table.param_gradient = [](weft_param* param) -> const weft_at_tensor* {
    return param->gradient.defined() ? handle(param->gradient) : nullptr;
  };
  table.param_set_gradient = [](weft_param* param, const weft_at_tensor* to, weft_error*) -> weft_status {
    param->gradient = to == nullptr ? Tensor() : share(to);
    return WEFT_OK;
  };
  return table;
}

weft_comm_services comm_services() {
  weft_comm_services table = {};
  table.struct_size = sizeof(table);
  table.axes = [](weft_training*, weft_str, uint32_t* out, weft_error*) -> weft_status {
    *out = 1;
    return WEFT_OK;
  };
  table.comm = [](weft_training*, uint32_t) { return &everyone; };
  table.rank = [](weft_comm*) -> uint32_t { return 0; };
  table.size = [](weft_comm*) -> uint32_t { return 2; };
  table.all_reduce = [](weft_comm*, const weft_at_tensor* inout, uint32_t, weft_work** own,
                        weft_error*) -> weft_status {
    const Tensor tensor = share(inout);
    for (int64_t i = 0; i < tensor.numel(); ++i) floats(tensor)[i] *= 2;
    ++sums;
    *own = &work;
    return WEFT_OK;
  };
  table.wait = [](weft_work*, weft_error*) -> weft_status { return WEFT_OK; };
  table.release = [](weft_work*) {};
  return table;
}

weft_status allocate(uint32_t, uint32_t, int64_t elements, weft_at_tensor* out, weft_error*) {
  const Tensor made = torch::stable::empty({&elements, 1}, torch::headeronly::ScalarType::Float);
  TORCH_ERROR_CODE_CHECK(aoti_torch_assign_tensors(made.get(), reinterpret_cast<AtenTensorHandle>(out)));
  return WEFT_OK;
}

weft_status shard(weft_shard_sink* sink, const weft_shard* record, weft_error*) {
  sink->shards.push_back(*record);
  sink->values.push_back(share(record->value));
  sink->gradients.push_back(record->gradient == nullptr ? Tensor() : share(record->gradient));
  return WEFT_OK;
}

const void* extension(weft_str id) {
  static const weft_model_services model = model_services();
  static const weft_comm_services comm = comm_services();
  static weft_publish_services publish = {};
  static weft_pool_services pools = {};
  static weft_memory_services memory = {};
  static weft_step_services step = {};
  static weft_mesh_services mesh = {};
  publish.struct_size = sizeof(publish);
  publish.shard = shard;
  pools.struct_size = sizeof(pools);
  pools.allocate = allocate;
  if (is(id, WEFT_MODEL_SERVICES)) return &model;
  if (is(id, WEFT_COMM_SERVICES)) return &comm;
  if (is(id, WEFT_PUBLISH_SERVICES)) return &publish;
  if (is(id, WEFT_POOL_SERVICES)) return &pools;
  if (is(id, WEFT_MEMORY_SERVICES)) return &memory;
  if (is(id, WEFT_STEP_SERVICES)) return &step;
  return is(id, WEFT_MESH_SERVICES) ? &mesh : nullptr;
}

// Backward: the gradient of the sum of squares of each value is 2 w. It is added up in place.
void backward(weft_training& training) {
  for (const weft_param& param : training.params)
    for (int64_t i = 0; !param.frozen && i < param.count; ++i)
      floats(param.gradient)[i] += 2 * floats(param.tensor)[i];
}

void train(const weft_strategy_api& api, weft_training& training) {
  weft_strategy* strategy = nullptr;
  weft_strategy_arguments arguments = {};
  arguments.struct_size = sizeof(arguments);
  arguments.world_size = 2;
  check(api.create(&api, &arguments, &strategy, nullptr), "create");
  check(api.configure(strategy, &training, nullptr), "configure");
  weft_pass pass = {};
  pass.struct_size = sizeof(pass);
  pass.synchronise = pass.num_micros = 1;
  for (; pass.step < kUpdates; ++pass.step) {
    check(api.begin_backward(strategy, &pass, nullptr), "begin_backward");
    backward(training);
    check(api.end_backward(strategy, &pass, nullptr), "end_backward");
    weft_shard_sink sink;
    check(api.publish(strategy, WEFT_REASON_UPDATE, &sink, nullptr), "publish");
    for (size_t i = 0; i < sink.shards.size(); ++i)
      for (int64_t k = 0; sink.gradients[i].defined() && k < sink.shards[i].count; ++k)
        floats(sink.values[i])[k] -= static_cast<float>(kRate) * floats(sink.gradients[i])[k];
    if (api.values_changed != nullptr)
      check(api.values_changed(strategy, WEFT_REASON_UPDATE, nullptr), "values_changed");
    check(api.zero_gradients(strategy, nullptr), "zero_gradients");
  }
  api.destroy(strategy);
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft::test;
  if (argc != 4) fail("usage: strategy_host LIBRARY NAME MAJOR.MINOR");
  const std::string version = require_libtorch(argv[3]);
  const auto& factory = load<weft_strategy_factory>(argv[1], WEFT_FACTORY_STRATEGY, extension);
  const weft_strategy_api* const api = factory.find(&factory, text(argv[2]));
  if (api == nullptr) fail("there is no such strategy");
  weft_training training;
  for (const int64_t count : {2, 10, 6}) training.params.push_back({count, count == 6, {}, {}});
  train(*api, training);
  const double factor = std::pow(1 - kRate * 2 * 2, kUpdates);  // of the values, by all updates
  double worst = 0;
  for (const weft_param& param : training.params)
    for (int64_t i = 0; i < param.count; ++i)
      worst =
          std::max(worst, std::abs(floats(param.tensor)[i] - param.initial(i) * (param.frozen ? 1 : factor)));
  std::printf("libtorch %s: %d sums, values differ by at most %g\n", version.c_str(), sums, worst);
  return sums == kUpdates && worst < 1e-6 ? 0 : 1;
}
