// Compares what ranks hold of a model with its whole tensors.
#pragma once

#include <map>
#include <string>

#include "training/bindings.hpp"

namespace weft::contract {

// Whole tensors in fp64, by the name of the parameter.
using Tensors = std::map<std::string, at::Tensor>;

// Puts the tensors together from what a single rank publishes: its values, or its gradients without the scale
// of the loss. Where there is no gradient it is zero.
Tensors published(Bindings& bindings, at::Tensor Shard::*part);

// Return what is wrong, or "". `tolerance` is relative to the largest element of the expected tensor, and
// never to less than 1e-4.
std::string difference(const std::string& name, const at::Tensor& found, const at::Tensor& expected,
                       double tolerance);
std::string difference(const Tensors& found, const Tensors& expected, double tolerance);
std::string difference(const std::string& name, double found, double expected, double tolerance);

// Compares each range that this rank publishes with these elements of the whole tensors, and returns the
// first difference, or "". A range without a gradient is one of zeros; those of frozen parameters have none.
std::string published_difference(Bindings& bindings, at::Tensor Shard::*part, const Tensors& expected,
                                 double tolerance);

// Returns one data-parallel rank's samples of a global batch: parts that differ by at most one. A rank
// without any gets a stand-in.
Batch own_part(const Batch& batch, int64_t rank, int64_t ranks);

}  // namespace weft::contract
