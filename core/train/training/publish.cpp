#include "training/publish.hpp"

#include <algorithm>
#include <cctype>

#include "base/error_sink.hpp"
#include "base/text.hpp"
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
  const at::ScalarType dtype = tensor.scalar_type(), layer = param.tensor.scalar_type();
  const at::ScalarType master = param.bindings->master_dtype(layer);
  const bool of_layer = dtype == layer;
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

namespace {

// Says which range is wrong.
struct Range {
  const weft_param& param;
  const weft_shard& record;
  std::string what;  // "published range"
  [[noreturn]] void operator()(const std::string& problem) const {
    throw Error(WEFT_INVALID_ARGUMENT, what + " of " + param.name + ", " + std::to_string(record.count) +
                                           " elements from " + std::to_string(record.begin) +
                                           " on: " + problem);
  }
};

weft_param& param_of(const weft_shard_sink& sink, const weft_shard& record) {
  if (record.param == nullptr || record.param->bindings != sink.bindings)
    throw Error(WEFT_INVALID_ARGUMENT, "a published range is of no parameter of this training");
  return *record.param;
}

void check_range(const weft_shard& record, const Range& refuse) {
  if (record.begin < 0 || record.count < 0 || record.begin > refuse.param.count() ||
      record.count > refuse.param.count() - record.begin)
    refuse("the parameter has " + std::to_string(refuse.param.count()) + " elements here");
  if (without(record.partition_axes, all_axes()) != 0)
    refuse("partition_axes has bits beyond the axes of the mesh");
  if ((record.flags & ~uint32_t{WEFT_SHARD_COPY}) != 0) refuse("its flags are unknown to this version");
}

// Calls `add` with each part of the range that one part of the parameter holds, and a function that cuts it
// out of the range's tensors.
template <class Add>
void for_each_part(const weft_shard_sink& sink, weft_param& param, const weft_shard& record, const Add& add) {
  for (const auto& [run, counted] : counted_runs(param, record.begin, record.count)) {
    const auto part = [&, run = run](const at::Tensor& all) {
      return all.detach().view(-1).narrow(0, run.begin - record.begin, run.count);
    };
    Shard shard;
    shard.param = &param;
    shard.begin = run.begin;
    shard.count = run.count;
    shard.partition_axes = joined(record.partition_axes, param.partition_axes);
    shard.divided_axes =
        without(common(sink.bindings->mesh().open_axes(), record.partition_axes), param.partition_axes);
    shard.copy = (record.flags & WEFT_SHARD_COPY) != 0;
    shard.counted = !shard.copy && counted;
    if (shard.counted)
      std::tie(shard.counted_begin, shard.counted_count) =
          sink.bindings->mesh().counted_range(shard.partition_axes, shard.count);
    add(std::move(shard), part);
  }
}

}  // namespace

void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value,
               const at::Tensor& gradient, const at::Tensor& working) {
  weft_param& param = param_of(sink, record);
  const Range refuse{param, record, "published range"};
  check_range(record, refuse);
  check_tensor(value, kValues, param, record.count, refuse);
  if (gradient.defined()) check_tensor(gradient, kGradients, param, record.count, refuse);
  if (working.defined()) check_working(working, value, param, refuse);
  for_each_part(sink, param, record, [&](Shard shard, const auto& part) {
    shard.value = part(value);
    if (gradient.defined() && !param.frozen) shard.gradient = part(gradient);
    if (working.defined()) shard.working = part(working);
    sink.shards.push_back(std::move(shard));
  });
}

void add_kept(weft_shard_sink& sink, std::string_view name, const weft_shard& record,
              const at::Tensor& value) {
  constexpr size_t kLongest = 64;
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || name.size() > kLongest || !std::all_of(name.begin(), name.end(), is_plain))
    throw Error(WEFT_INVALID_ARGUMENT, "a tensor that the strategy keeps is called \"" + printable(name) +
                                           "\"; a name is of at most 64 letters, digits and _");
  weft_param& param = param_of(sink, record);
  const Range refuse{param, record, "range of \"" + std::string(name) + "\""};
  check_range(record, refuse);
  check_elements(value, "numbers", record.count, refuse);
  for_each_part(sink, param, record, [&](Shard shard, const auto& part) {
    shard.value = part(value);
    sink.kept.push_back({std::string(name), std::move(shard)});
  });
}

std::vector<Shard> Bindings::publish(uint32_t reason, std::vector<Kept>* kept) {
  strategy_->check_alive();
  weft_shard_sink sink{this, {}, {}};
  strategy_->call<&weft_strategy_api::publish>(reason, &sink);
  check_ranges(sink.shards);
  memory::finish_transfers();
  if (kept != nullptr) *kept = std::move(sink.kept);
  return std::move(sink.shards);
}

}  // namespace weft
