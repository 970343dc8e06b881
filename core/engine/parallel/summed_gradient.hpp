// Parameters whose gradient is summed over ranks that hold the same elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "weft/plan.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// The groups of ranks of the tensor axis that hold the same elements of some parameter, each made once.
class SharedGroups {
 public:
  explicit SharedGroups(Communicator tensor) : tensor_(std::move(tensor)) {}
  const Communicator& tensor() const { return tensor_; }
  // Makes a group of each set of ranks that keep the same elements along `dim`. All ranks know what all keep,
  // so they make the same groups in the same order. Collective where there are such sets.
  void make(const std::vector<Cut>& cuts, size_t dim);
  // Returns a group that make() made; null where this rank is not among its members.
  const Communicator& of(const std::vector<uint32_t>& members) const { return groups_.at(members); }

 private:
  const Communicator tensor_;
  std::map<std::vector<uint32_t>, Communicator> groups_;
};

// Returns the identity with a gradient summed over all ranks of the tensor axis that hold the same elements
// as this one: all of them for a parameter that is not split. Collective over the tensor axis.
std::function<at::Tensor(const at::Tensor& parameter)> summed_gradient(
    const plan::PlannedParameter& parameter, SharedGroups& groups);

}  // namespace weft::parallel
