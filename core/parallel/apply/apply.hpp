// Applies a plan to a model: fills the slots of layers with operations and divides attributes such as the
// number of heads.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "streams/residual_stream.hpp"
#include "weft/nn/model.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// A plan that has been applied to a model.
class AppliedPlan {
 public:
  // Applies `plan` to `model`. `tensor` and `sequence` are the groups of the tensor and the sequence axis,
  // each of one or more ranks; collective over both. The model must outlive this object. Throws UNIMPLEMENTED
  // for whatever plan::unsupported() reports, INVALID_ARGUMENT naming a module whose class an operation does
  // not fit.
  AppliedPlan(nn::Model& model, const plan::Plan& plan, const Communicator& tensor,
              const Communicator& sequence);
  AppliedPlan(const AppliedPlan&) = delete;

  // Returns, by full name, every parameter that is sharded or whose gradient is not summed over the usual
  // axes. A tied parameter is listed under both of its names.
  const std::map<std::string, plan::PlannedParameter>& split() const { return split_; }
  // Returns the residual stream of `sequence`, a name that Model::lengths gives.
  const ResidualStream& stream(const std::string& sequence) const;
  // Returns how often the data-parallel sum of gradients counts each sample: the size of the sequence axis if
  // sequences are split over it, 1 otherwise.
  int64_t times_counted() const;
  // Returns true if the residual stream is split along the sequence over the ranks of the tensor axis.
  bool divides_positions_of_tensor_ranks() const;
  // Restores the layers as they were before the plan, so that another plan can be built and applied.
  void lift();
  // Applies the plan again after lift().
  void put_back();

 private:
  class Installer;
  struct Change {
    std::function<void()> apply, undo;
  };
  std::map<std::string, plan::PlannedParameter> split_;
  std::vector<Change> changes_;
  // The residual streams, by the path of the module below which their sequence begins. The stream of every
  // other module has the path "".
  std::map<std::string, std::shared_ptr<ResidualStream>> streams_;
};

}  // namespace weft::parallel
