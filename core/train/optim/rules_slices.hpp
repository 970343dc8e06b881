// Groups slices for operators, which take lists of tensors of one dtype.
#pragma once

#include <vector>

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Check options of a rule. Throw INVALID_ARGUMENT naming the rule, the option, its value and what it must be.
void check_at_least_zero(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names);
void check_betas(const Rule& rule, const Hyper& options, std::initializer_list<const char*> names);  // [0, 1)
void check_switches(const Rule& rule, const Hyper& options,
                    std::initializer_list<const char*> names);  // 0, 1

// The tensors of several slices, as Weft's operators take them. states[i] has the states whose name is number
// i of `state_names`.
struct Lists {
  std::vector<at::Tensor> values, gradients;
  std::vector<at::Tensor> working;  // of values in fp32; empty, or one for each
  std::vector<std::vector<at::Tensor>> states;
  std::vector<const Slice*> slices;
  bool first = false;  // the slices had no states before
};

// Groups slices by dtypes, device, whether they have working copies, and whether they had states before, so
// that a rule can tell first updates apart. Leaves out empty ones. Makes missing states as zeros.
std::vector<Lists> group(const Rule& rule, UpdateBatch& batch, const std::vector<std::string>& state_names);

// Makes missing states with these names as zeros. Throws INTERNAL unless value, gradient and states are flat
// contiguous tensors of one size, which a kernel can read by one index.
void prepare(const Rule& rule, Slice& slice, const std::vector<std::string>& state_names);

}  // namespace weft::optim
