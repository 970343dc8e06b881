// Rules that scale the learning rate of each parameter by a trust ratio: the norm of its values over the norm
// of its step. Norms are of the whole parameter over all ranks. If one is zero, the ratio is 1.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Returns LAMB (You et al. 2020, arXiv:1904.00962, Algorithm 2). bias_correction corrects the moments before
// the ratio is taken; with `adam` the ratio is 1.
std::shared_ptr<const Rule> lamb_rule();

// Returns LARS (You et al. 2017, arXiv:1708.03888, Algorithm 1). The momentum includes learning rate and
// trust ratio; the ratio is not clamped.
std::shared_ptr<const Rule> lars_rule();

}  // namespace weft::optim
