#include "training/publish.hpp"

#include "base/error_sink.hpp"
#include "memory/transfers.hpp"
#include "training/part.hpp"

namespace weft {

namespace {

constexpr const char* kValues = "values";
constexpr const char* kGradients = "gradients";
constexpr const char* kWorking = "working copies";

// Checks all but the dtype.
template <class Refuse>
void check_elements(const at::Tensor& tensor, const char* what, int64_t count, const Refuse& refuse) {
  if (!tensor.defined() || tensor.numel() != count)
    refuse(std::to_string(tensor.defined() ? tensor.numel() : 0) + " " + what + " were given");
  if (!tensor.is_contiguous()) refuse(std::string(what) + " are not contiguous");
}

template <class Refuse>
void check_tensor(const at::Tensor& tensor, const char* what, const weft_param& param, int64_t count,
                  const Refuse& refuse) {
  check_elements(tensor, what, count, refuse);
  const at::ScalarType dtype = tensor.scalar_type(), master = param.bindings->master_dtype();
  const bool of_layer = dtype == param.tensor.scalar_type();
  // A frozen parameter needs no master weights, but a strategy may put it in one buffer with others.
  if (dtype != master && !(of_layer && (what == kGradients || param.frozen)))
    refuse(std::string(what) + " are of " + c10::toString(dtype) + ", must be of " + c10::toString(master) +
           (of_layer ? ": this strategy keeps no master weights" : ""));
}

template <class Refuse>
void check_working(const at::Tensor& tensor, const at::Tensor& value, const weft_param& param,
                   const Refuse& refuse) {
  check_elements(tensor, kWorking, value.numel(), refuse);
  if (const at::ScalarType of_layer = param.tensor.scalar_type(); tensor.scalar_type() != of_layer)
    refuse(std::string(kWorking) + " are of " + c10::toString(tensor.scalar_type()) + ", must be of " +
           c10::toString(of_layer) + " as the layers");
  if (tensor.device() != value.device())
    refuse(std::string(kWorking) + " are on " + tensor.device().str() + ", but the values on " +
           value.device().str());
  if (tensor.is_alias_of(value)) refuse(std::string(kWorking) + " are the values themselves: leave them out");
}

}  // namespace

void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value,
               const at::Tensor& gradient, const at::Tensor& working) {
  weft_param* const param = record.param;
  if (param == nullptr || param->bindings != sink.bindings)
    throw Error(WEFT_INVALID_ARGUMENT, "a published range is of no parameter of this training");
  const auto refuse = [&](const std::string& what) {
    throw Error(WEFT_INVALID_ARGUMENT, "published range of " + param->name + ", " +
                                           std::to_string(record.count) + " elements from " +
                                           std::to_string(record.begin) + " on: " + what);
  };
  if (record.begin < 0 || record.count < 0 || record.begin > param->count() ||
      record.count > param->count() - record.begin)
    refuse("the parameter has " + std::to_string(param->count()) + " elements here");
  check_tensor(value, kValues, *param, record.count, refuse);
  if (gradient.defined()) check_tensor(gradient, kGradients, *param, record.count, refuse);
  if (working.defined()) check_working(working, value, *param, refuse);
  if (without(record.partition_axes, all_axes()) != 0)
    refuse("partition_axes has bits beyond the axes of the mesh");
  if ((record.flags & ~uint32_t{WEFT_SHARD_COPY}) != 0) refuse("its flags are unknown to this version");
  for (const auto& [run, counted] : counted_runs(*param, record.begin, record.count)) {
    const auto part = [&, run = run](const at::Tensor& all) {
      return all.detach().view(-1).narrow(0, run.begin - record.begin, run.count);
    };
    Shard shard;
    shard.param = param;
    shard.begin = run.begin;
    shard.count = run.count;
    shard.value = part(value);
    if (gradient.defined() && !param->frozen) shard.gradient = part(gradient);
    if (working.defined()) shard.working = part(working);
    shard.partition_axes = joined(record.partition_axes, param->partition_axes);
    shard.divided_axes =
        without(common(sink.bindings->mesh().open_axes(), record.partition_axes), param->partition_axes);
    shard.copy = (record.flags & WEFT_SHARD_COPY) != 0;
    if (!shard.copy && counted)
      std::tie(shard.counted_begin, shard.counted_count) =
          sink.bindings->mesh().counted_range(shard.partition_axes, shard.count);
    sink.shards.push_back(std::move(shard));
  }
}

std::vector<Shard> Bindings::publish(uint32_t reason) {
  strategy_->check_alive();
  weft_shard_sink sink{this, {}};
  strategy_->call<&weft_strategy_api::publish>(reason, &sink);
  check_ranges(sink.shards);
  memory::finish_transfers();
  return std::move(sink.shards);
}

}  // namespace weft
