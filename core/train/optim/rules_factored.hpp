// Rules that factor the second moment of a matrix into the means of its rows and of its columns. A parameter
// of more than two dimensions is a stack of matrices of its last two. One of fewer has a full second moment.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Returns Adafactor (Shazeer, Stern 2018, arXiv:1804.04235, Algorithms 4 and 5), with the options of
// Colossal-AI and transformers. With relative_step the step size is min(lr, 1 / sqrt(t)), and at most 1e-6 t
// with warmup_init; without it, it is lr. scale_parameter multiplies it by max(eps2, RMS of the values).
// beta1 = 0 keeps no first moment.
std::shared_ptr<const Rule> adafactor_rule();

// Returns CAME (Luo et al. 2023, arXiv:2307.02047, Algorithm 2).
std::shared_ptr<const Rule> came_rule();

}  // namespace weft::optim
