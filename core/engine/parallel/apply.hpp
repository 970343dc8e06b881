// Puts a plan into a model: operations into the layers' slots, heads divided.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/residual_stream.hpp"
#include "plan/plan.hpp"
#include "weft/nn/model.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

class AppliedPlan {
 public:
  // The ranks of the tensor axis and of the sequence axis, of any number. Collective over them. Throws
  // UNIMPLEMENTED for what a plan may say but this version does not perform. The model outlives this.
  AppliedPlan(nn::Model& model, const plan::Plan& plan, const Communicator& tensor,
              const Communicator& sequence);
  AppliedPlan(const AppliedPlan&) = delete;

  // Every parameter that is split, or whose gradient is summed over other axes than most, by its full name,
  // ties under both names.
  const std::map<std::string, plan::PlannedParameter>& split() const { return split_; }
  // Returns which of the `total` positions of a sequence, which Model::lengths names, this rank has.
  std::vector<Run> own_positions(const std::string& sequence, int64_t total) const;
  // How often the ranks of the sequence axis add up gradients of the same samples.
  int64_t times_counted() const;
  // True if the ranks of the tensor axis have other positions each, between the regions.
  bool divides_positions_of_tensor_ranks() const;
  // The layers as they were, so that another plan can be made and applied; again: as this plan wants them.
  void lift();
  void put_back();

 private:
  class Installer;
  struct Change {
    std::function<void()> apply, undo;
  };
  std::map<std::string, plan::PlannedParameter> split_;
  std::vector<Change> changes_;
  // One for each sequence that begins below a module of its own, by that module's path; "": for all others.
  std::map<std::string, std::shared_ptr<ResidualStream>> streams_;
};

}  // namespace weft::parallel
