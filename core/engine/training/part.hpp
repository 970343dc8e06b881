// Parameters of a model, and where the elements of this rank's part of one lie in the whole.
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

// Of every tensor one, under its canonical name, whole and of no training yet.
std::vector<std::unique_ptr<weft_param>> list_params(const nn::Model& model);
// Leaves this rank its parts. `place`: where this rank stands along a set of axes.
void keep_parts(const std::vector<std::unique_ptr<weft_param>>& params, const parallel::AppliedPlan& plan,
                const std::function<Mesh::Place(Axes axes)>& place);

// Divides elements [begin, begin + count) of this rank's part into runs that a rank along the parameter's
// partition_axes counts (this one or one with the same part), and runs that a rank with a lower place there
// holds and counts. In order, one at least.
struct CountedRun {
  Run run;
  bool counted;
};
std::vector<CountedRun> counted_runs(const weft_param& param, int64_t begin, int64_t count);

// Fills `values` with elements [begin, begin + count) of this rank's part as they begin: out of `source` (may
// be null) if it has the parameter, otherwise by the model's initial values of `seed`.
void read_initial(const weft_param& param, const nn::Model& model, int64_t seed, ParameterSource* source,
                  int64_t begin, int64_t count, const at::Tensor& values);

// Gives the module's parameter the storage of `value`. The TensorImpl stays, so the module's members, ties
// and handles all see it.
void bind_storage(const weft_param& param, const at::Tensor& value);
// A parameter of a training without it: whole again, without memory, gradient and hooks, as the model was
// made.
void unbind_storage(weft_param& param);

}  // namespace weft
