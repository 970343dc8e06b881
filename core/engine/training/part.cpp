#include "training/part.hpp"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "nn/initialise.hpp"
#include "parallel/apply.hpp"
#include "training/bindings.hpp"

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
    param->frozen = model.frozen(name) || !tensor.requires_grad();
    params.push_back(std::move(param));
  }
  return params;
}

void keep_parts(const std::vector<std::unique_ptr<weft_param>>& params, const parallel::AppliedPlan& plan) {
  for (const auto& param : params) {
    const auto kept = plan.parts().find(param->name);
    if (kept == plan.parts().end()) continue;
    param->cut = kept->second;
    param->local = param->cut.local(param->shape);
    param->partition_axes |= 1u << WEFT_AXIS_TENSOR;
  }
}

std::vector<Run> runs_of(const weft_param& param, int64_t rank, int64_t begin, int64_t count) {
  if (param.cut.dim < 0 || count == 0) return {{begin, count, false}};
  std::vector<Run> runs;
  // Parts of which only some features are duplicates are cut along the first dimension.
  const int64_t of_feature = param.count() / param.local[static_cast<size_t>(param.cut.dim)];
  int64_t at = 0;
  for (const Segment& segment : param.cut.segments) {
    const int64_t next = at + segment.count * of_feature;
    const int64_t from = std::max(begin, at), to = std::min(begin + count, next);
    const bool duplicate = rank % segment.copies != 0;
    at = next;
    if (from >= to) continue;
    if (!runs.empty() && runs.back().duplicate == duplicate)
      runs.back().count += to - from;
    else
      runs.push_back({from, to - from, duplicate});
  }
  return runs;
}

void for_each_box(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const checkpoint::Box& box, const at::Tensor& values)>& visit) {
  int64_t done = 0;
  for (const checkpoint::Box& local :
       checkpoint::boxes_of_range(checkpoint::whole(param.local), begin, count)) {
    const int64_t elements = local.numel();
    const at::Tensor held = values.narrow(0, done, elements).view(local.extent);
    done += elements;
    if (param.cut.dim < 0) {
      visit(local, held);
      continue;
    }
    const auto dim = static_cast<size_t>(param.cut.dim);
    const int64_t first = local.offset[dim], last = first + local.extent[dim];
    int64_t at = 0;  // of the segment in the part
    for (const Segment& segment : param.cut.segments) {
      const int64_t from = std::max(first, at), to = std::min(last, at + segment.count);
      if (from < to) {
        checkpoint::Box box = local;
        box.offset[dim] = segment.begin + from - at;
        box.extent[dim] = to - from;
        visit(box, held.narrow(param.cut.dim, from - first, to - from));
      }
      at += segment.count;
    }
  }
}

void read_initial(const weft_param& param, const nn::Model& model, int64_t seed, ParameterSource* source,
                  int64_t begin, int64_t count, const at::Tensor& values) {
  for_each_box(param, begin, count, values, [&](const checkpoint::Box& box, const at::Tensor& part) {
    if (source != nullptr && source->read(param.name, box, part)) return;
    nn::initialise(model.initial(param.name), seed, param.name, param.shape, box, part);
  });
}

void bind_storage(const weft_param& param, const at::Tensor& value) {
  param.tensor.unsafeGetTensorImpl()->shallow_copy_from(value.variable_data().getIntrusivePtr());
  param.tensor.set_requires_grad(!param.frozen);
}

void unbind_storage(weft_param& param) {
  param.tensor.mutable_grad().reset();
  torch::autograd::impl::set_post_acc_grad_hooks(param.tensor, nullptr);
  const at::Tensor whole = at::empty(param.shape, param.tensor.options().device(at::kMeta));
  param.tensor.unsafeGetTensorImpl()->shallow_copy_from(whole.getIntrusivePtr());
  param.bound = false;
}

}  // namespace weft
