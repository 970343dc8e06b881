#include "training/part.hpp"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>

#include "apply/apply.hpp"
#include "axes/cut.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "training/bindings.hpp"
#include "weft/nn/batch_norm.hpp"

namespace weft {

std::vector<std::unique_ptr<weft_param>> list_params(const nn::Model& model) {
  std::set<std::string> aliases;
  for (const nn::Tie& tie : model.ties()) aliases.insert(tie.name);
  std::vector<std::unique_ptr<weft_param>> params;
  for (const auto& item : model.named_parameters(true)) {
    const std::string& name = item.key();
    const at::Tensor& tensor = item.value();
    if (aliases.count(name) > 0 ||
        std::any_of(params.begin(), params.end(), [&](const auto& p) { return p->tensor.is_same(tensor); }))
      continue;
    if (tensor.dim() > WEFT_MAX_DIMS)
      fail(WEFT_INVALID_ARGUMENT, "parameter {} has {} dimensions, at most {} are possible", name,
           tensor.dim(), WEFT_MAX_DIMS);
    auto param = std::make_unique<weft_param>();
    param->name = name;
    param->index = static_cast<uint32_t>(params.size());
    param->tensor = tensor;
    param->shape = param->local = tensor.sizes().vec();
    param->cut = Cut::whole(param->shape);
    param->counted = {{0, tensor.numel()}};
    param->frozen = model.frozen(name) || !tensor.requires_grad();
    params.push_back(std::move(param));
  }
  return params;
}

void keep_parts(const std::vector<std::unique_ptr<weft_param>>& params, const parallel::AppliedPlan& plan,
                const std::function<Mesh::Place(Axes axes)>& place) {
  for (const auto& param : params) {
    const auto found = plan.split().find(param->name);
    if (found == plan.split().end()) continue;
    const plan::PlannedParameter& planned = found->second;
    param->partition_axes = planned.partition_axes;
    param->gradient_axes = without(planned.gradient_axes, planned.partition_axes);
    if (planned.cuts.empty()) continue;
    const Mesh::Place own = place(planned.partition_axes);
    if (own.size != planned.cuts.size())
      fail(WEFT_INTERNAL, "the plan divides {} among {} places, but the mesh has {} along these axes",
           param->name, planned.cuts.size(), own.size);
    param->cut = planned.cuts[own.rank];
    param->local = param->cut.local();
    param->counted = first_held(planned.cuts, own.rank);
    param->num_parts = own.size;
    param->part = static_cast<uint32_t>(std::find(planned.cuts.begin(), planned.cuts.end(), param->cut) -
                                        planned.cuts.begin());
  }
}

void keep_on_stages(weft_param& param, const std::vector<uint32_t>& holders, Mesh::Place own) {
  param.here = std::find(holders.begin(), holders.end(), own.rank) != holders.end();
  param.across_stages = holders.size() > 1;
  param.partition_axes = joined(param.partition_axes, Mesh::stages());
  param.part += param.num_parts * (param.here ? holders.front() : own.rank);
  param.num_parts *= own.size;
  if (own.rank != holders.front()) param.counted.clear();
  if (param.here || param.shape.empty()) return;
  param.cut = Cut::nothing(param.shape);
  param.local = param.cut.local();
}

std::vector<CountedRun> counted_runs(const weft_param& param, int64_t begin, int64_t count) {
  const int64_t end = begin + count;
  std::vector<CountedRun> runs;
  const auto add = [&](int64_t from, int64_t to, bool counted) {
    from = std::max(from, begin);
    to = std::min(to, end);
    if (from < to) runs.push_back({{from, to - from}, counted});
  };
  int64_t at = 0;
  for (const Run& run : param.counted) {
    add(at, run.begin, false);
    add(run.begin, run.end(), true);
    at = run.end();
  }
  add(at, param.count(), false);
  if (runs.empty()) runs.push_back({{begin, 0}, true});
  return runs;
}

void bind_storage(const weft_param& param, const at::Tensor& value) {
  param.tensor.unsafeGetTensorImpl()->shallow_copy_from(value.variable_data().getIntrusivePtr());
  param.tensor.set_requires_grad(!param.frozen);
}

void place_buffers(const nn::Model& model, ParameterSource* source) {
  for (const auto& item : model.named_buffers(true)) {
    const at::Tensor& buffer = item.value();
    if (!buffer.defined() || buffer.is_meta() || device::current().holds(buffer)) continue;
    const at::Tensor there = device::on_device(buffer.detach());
    buffer.unsafeGetTensorImpl()->shallow_copy_from(there.getIntrusivePtr());
  }
  if (source == nullptr) return;
  const at::NoGradGuard no_grad;
  for (const auto& [name, buffer] : nn::kept_buffers(model)) {
    const at::Tensor values = device::on_host(buffer).clone();
    if (source->read(name, Box::whole(buffer.sizes().vec()), values)) buffer.copy_(values);
  }
}

void unbind_storage(weft_param& param) {
  param.tensor.mutable_grad().reset();
  torch::autograd::impl::set_post_acc_grad_hooks(param.tensor, nullptr);
  const at::Tensor whole = at::empty(param.shape, param.tensor.options().device(at::kMeta));
  param.tensor.unsafeGetTensorImpl()->shallow_copy_from(whole.getIntrusivePtr());
  param.bound = false;
}

}  // namespace weft
