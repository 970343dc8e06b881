// Parameters of a model, and where the elements of this rank's part of one lie in the whole.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/box.hpp"
#include "training/handles.hpp"
#include "weft/nn/model.hpp"

namespace weft {

class ParameterSource;
namespace parallel {
class AppliedPlan;
}

// Of every tensor one, under its canonical name, whole and of no training yet.
std::vector<std::unique_ptr<weft_param>> list_params(const nn::Model& model);
// Leaves this rank its parts.
void keep_parts(const std::vector<std::unique_ptr<weft_param>>& params, const parallel::AppliedPlan& plan);

// Elements of this rank's part of which the same is true: a lower rank of the tensor axis has them too, or
// none.
struct Run {
  int64_t begin, count;
  bool duplicate;
};
// Elements [begin, begin + count) in runs, in order, one at least. `rank`: of the tensor axis.
std::vector<Run> runs_of(const weft_param& param, int64_t rank, int64_t begin, int64_t count);

// The boxes of the whole parameter that elements [begin, begin + count) of this rank's part make up, in their
// order. `values` holds those elements, flat; `visit` gets for each box the view of them, of its extent.
void for_each_box(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const checkpoint::Box& box, const at::Tensor& values)>& visit);

// Fills `values` with those elements as they begin: out of `source` (may be null) if it has the parameter,
// otherwise by the model's initial values of `seed`.
void read_initial(const weft_param& param, const nn::Model& model, int64_t seed, ParameterSource* source,
                  int64_t begin, int64_t count, const at::Tensor& values);

// Gives the module's parameter the storage of `value`. The TensorImpl stays, so the module's members, ties
// and handles all see it.
void bind_storage(const weft_param& param, const at::Tensor& value);
// A parameter of a training without it: whole again, without memory, gradient and hooks, as the model was
// made.
void unbind_storage(weft_param& param);

}  // namespace weft
