// Sums the gradients of parameters of which several ranks of the tensor axis hold the same elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "weft/nn/operation.hpp"
#include "weft/plan.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// The communicators of the ranks of the tensor axis that hold the same elements of a parameter. Each group is
// made once, however many parameters need it.
class SharedGroups {
 public:
  explicit SharedGroups(Communicator tensor) : tensor_(std::move(tensor)) {}
  const Communicator& tensor() const { return tensor_; }
  // Makes the missing communicators for the sets of ranks that hold the same elements along `dim`. Collective
  // over the tensor axis if there are such sets. `cuts` is the same on every rank, so all make the same
  // communicators in the same order.
  void make(const std::vector<Cut>& cuts, size_t dim);
  // Returns a communicator that make() made; it is null if this rank is no member.
  const Communicator& of(const std::vector<uint32_t>& members) const { return groups_.at(members); }

 private:
  const Communicator tensor_;
  std::map<std::vector<uint32_t>, Communicator> groups_;
};

// Returns a function that returns its parameter unchanged and, in backward, sums the gradient over the ranks
// of the tensor axis that hold the same elements; over all of them if the parameter is replicated. Collective
// over the tensor axis.
std::function<at::Tensor(const at::Tensor& parameter)> summed_gradient(
    const plan::PlannedParameter& parameter, SharedGroups& groups);

// A norm whose parameters get gradients that are summed over ranks: each rank normalizes its own positions or
// its own heads.
class SummedNorm final : public nn::NormOperation {
 public:
  // `summed` returns a parameter unchanged and sums its gradient in backward.
  explicit SummedNorm(std::function<at::Tensor(const at::Tensor& parameter)> summed)
      : summed_(std::move(summed)) {}
  at::Tensor parameter(const at::Tensor& parameter) const override { return summed_(parameter); }

 private:
  const std::function<at::Tensor(const at::Tensor& parameter)> summed_;
};

}  // namespace weft::parallel
