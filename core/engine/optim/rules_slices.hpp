// Slices sorted for ATen's fused kernels, which take lists of one dtype.
#pragma once

#include <optional>

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Throw INVALID_ARGUMENT naming `rule`, option, got and wanted.
void check_at_least_zero(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names);
void check_betas(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names);  // [0, 1)
void check_switches(const Rule& rule, const Hyper& options,
                    std::initializer_list<const char*> names);  // 0, 1

// Tensors of slices side by side; `states` by the rule's own numbering.
struct Lists {
  std::vector<at::Tensor> values, gradients;
  std::vector<std::vector<at::Tensor>> states;
  // `factor` in the form the fused kernels take, if they have to apply it: they divide by it while they read,
  // and write the product back to the gradient.
  std::optional<at::Tensor> divisor;
};

// Groups by dtype and, so that a rule can tell first updates apart, by whether a slice had its states before;
// those are made here, as zeros. Multiplies the gradients by `factor` where a kernel could not do so exactly.
struct Grouped {
  Lists lists;
  bool first = false;
};
std::vector<Grouped> group(const Rule& rule, UpdateBatch& batch, const std::vector<std::string>& state_names);

// Throws INTERNAL unless value and gradient are flat tensors that a kernel may walk through side by side, and
// so are the states by these names, which are made as zeros where they are missing.
void prepare(const Rule& rule, Slice& slice, const std::vector<std::string>& state_names);

}  // namespace weft::optim
