// Norms over the published shards of all ranks, and clipping by them.
#pragma once

#include <vector>

#include "training/handles.hpp"

namespace weft::optim {

// The sum of |g|^p over the elements that this rank counts, in float64; the largest |g| if p is infinite.
// Infinity if a gradient is not finite.
double counted_norm_part(const std::vector<Shard>& shards, double p);

// The norm out of the parts of all ranks: their sum, or their largest if p is infinite.
double norm_of_parts(double combined, double p);

// Throws INVALID_ARGUMENT unless p is positive; `who` names the option.
void check_norm_type(double p, const char* who);
// The same of the arguments of clip_grad_by_norm.
void check_clipping(double max_norm, double norm_type);

// Multiplier that brings `norm` down to `max_norm`, as torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);
// By a factor of at most 1, in place.
void scale_gradients(const std::vector<Shard>& shards, double factor);

}  // namespace weft::optim
