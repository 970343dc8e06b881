#include "optim/rules_slices.hpp"

#include <map>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "memory/pools.hpp"

namespace weft::optim {

namespace {

[[noreturn]] void refuse(const Rule& rule, const at::Tensor& tensor, const std::string& what) {
  fail(WEFT_INTERNAL,
       "optimizer {}: a {} of {} elements of {}; slices are flat, contiguous, on one device, of one length, "
       "and all of float or all of double; gradients of float may be in half precision",
       rule.name(), what, tensor.defined() ? tensor.numel() : 0,
       tensor.defined() ? toString(tensor.scalar_type()) : "no tensor");
}

// Checks the tensors of a slice. The kernels take bare pointers, so they would read beyond the end of a
// shorter tensor.
bool has_shape_of(const at::Tensor& tensor, const at::Tensor& value) {
  return tensor.defined() && tensor.dim() == 1 && tensor.is_contiguous() &&
         tensor.device() == value.device() && tensor.numel() == value.numel();
}
bool matches(const at::Tensor& tensor, const at::Tensor& value) {
  return has_shape_of(tensor, value) && tensor.scalar_type() == value.scalar_type();
}

void check(const Rule& rule, const Slice& slice, const std::vector<std::string>& state_names) {
  const at::Tensor& value = slice.value;
  const bool is_master =
      value.defined() && (value.scalar_type() == at::kFloat || value.scalar_type() == at::kDouble);
  if (!is_master || !matches(value, value)) refuse(rule, value, "value");
  const bool half = rule.takes_half_gradients() && value.scalar_type() == at::kFloat &&
                    slice.gradient.defined() && at::isReducedFloatingType(slice.gradient.scalar_type());
  if (!(half ? has_shape_of(slice.gradient, value) : matches(slice.gradient, value)))
    refuse(rule, slice.gradient, "gradient");
  if (slice.working.defined() && !has_shape_of(slice.working, value))
    refuse(rule, slice.working, "working copy");
  for (const std::string& name : state_names) {
    const auto state = slice.state->find(name);
    if (state != slice.state->end() && !matches(state->second, value)) refuse(rule, state->second, name);
  }
}

// Makes missing states. Returns true if there were any.
bool make_states(const Slice& slice, const std::vector<std::string>& state_names) {
  bool made = false;
  for (const std::string& name : state_names) {
    if (slice.state->contains(name)) continue;
    slice.state->emplace(name, memory::empty_like(slice.value, slice.value.scalar_type()).zero_());
    made = true;
  }
  return made;
}

}  // namespace

void check_at_least_zero(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const double value = options.at(name);
    if (!(value >= 0))
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be at least 0", rule.name(), name, value);
  }
}

void check_betas(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const double beta = options.at(name);
    if (!(beta >= 0 && beta < 1))
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be at least 0 and below 1", rule.name(), name,
           beta);
  }
}

void check_switches(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const double value = options.at(name);
    if (value != 0 && value != 1)
      fail(WEFT_INVALID_ARGUMENT, "optimizer {}: {} is {}, must be 0 or 1", rule.name(), name, value);
  }
}

void prepare(const Rule& rule, Slice& slice, const std::vector<std::string>& state_names) {
  check(rule, slice, state_names);
  make_states(slice, state_names);
}

std::vector<Lists> group(const Rule& rule, UpdateBatch& batch, const std::vector<std::string>& state_names) {
  std::map<std::tuple<at::ScalarType, at::ScalarType, at::ScalarType, bool, bool>, Lists> groups;
  for (Slice& slice : batch.slices) {
    check(rule, slice, state_names);
    if (slice.value.numel() == 0) continue;
    const bool first = make_states(slice, state_names);
    const bool fills = slice.working.defined() && slice.value.scalar_type() == at::kFloat;
    const at::ScalarType filled = fills ? slice.working.scalar_type() : at::ScalarType::Undefined;
    Lists& lists = groups[{slice.value.scalar_type(), slice.gradient.scalar_type(), filled, first,
                           device::is_on_host(slice.value)}];
    lists.first = first;
    lists.values.push_back(slice.value);
    lists.gradients.push_back(slice.gradient);
    if (fills) lists.working.push_back(slice.working);
    lists.slices.push_back(&slice);
    lists.states.resize(state_names.size());
    for (size_t i = 0; i < state_names.size(); ++i)
      lists.states[i].push_back(slice.state->at(state_names[i]));
  }
  std::vector<Lists> grouped;
  for (auto& [key, lists] : groups) grouped.push_back(std::move(lists));
  return grouped;
}

}  // namespace weft::optim
