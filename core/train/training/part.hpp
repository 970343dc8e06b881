// Lists the parameters of a model, and keeps this rank's part of each.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "box/box.hpp"
#include "mesh/mesh.hpp"
#include "training/handles.hpp"
#include "weft/nn/model.hpp"

namespace weft {

class ParameterSource;

namespace parallel {
class AppliedPlan;
}

// Returns each parameter once, under its canonical name. Each is whole and belongs to no training yet.
std::vector<std::unique_ptr<weft_param>> list_params(const nn::Model& model);
// Reduces each parameter to the part that `plan` gives this rank. `place` returns this rank's place along a
// set of axes.
void keep_parts(const std::vector<std::unique_ptr<weft_param>>& params, const parallel::AppliedPlan& plan,
                const std::function<Mesh::Place(Axes axes)>& place);

// Keeps the parameter's part on the pipeline stages `holders`, ascending, and nothing of it on the others.
// The first holder counts it. `own` is this rank's place among the stages.
void keep_on_stages(weft_param& param, const std::vector<uint32_t>& holders, Mesh::Place own);

// Splits elements [begin, begin + count) of this rank's part into runs, in order, at least one. Where several
// parts hold the same elements, the part with the lowest place along the partition_axes counts them:
// `counted` says if that is this part. Mesh::counted_range then determines what each of the ranks with this
// part counts.
struct CountedRun {
  Run run;
  bool counted;
};
std::vector<CountedRun> counted_runs(const weft_param& param, int64_t begin, int64_t count);

// Gives the module's parameter the storage of `value`. Keeps the TensorImpl, so that members of modules, tied
// names and handles all see the new storage.
void bind_storage(const weft_param& param, const at::Tensor& value);
// Undoes bind_storage: the parameter is whole and on the meta device again, without gradient and hooks.
void unbind_storage(weft_param& param);
// Moves the buffers of the model to the device of this process, and reads those that checkpoints keep from
// `source`, which may be null. Keeps their TensorImpls likewise.
void place_buffers(const nn::Model& model, ParameterSource* source);

}  // namespace weft
