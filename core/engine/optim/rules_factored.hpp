// Rules that keep the second moment of a matrix as the means of its rows and of its columns. Parameters of
// more dimensions are matrices of their last two; those of fewer have a second moment of their own shape.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Shazeer, Stern 2018, arXiv:1804.04235, Algorithms 4 and 5, with the options of Colossal-AI and
// transformers. The step is min(lr, 1 / sqrt(t)) with relative_step, also at most 1e-6 t with warmup_init,
// and lr without it; with scale_parameter times max(eps2, RMS of the values). beta1 = 0: no first moment.
std::shared_ptr<const Rule> adafactor_rule();

// Luo et al. 2023, arXiv:2307.02047, Algorithm 2.
std::shared_ptr<const Rule> came_rule();

}  // namespace weft::optim
