// Rules whose rate is scaled for each parameter by the norm of its values against that of its step. Norms are
// of whole parameters over all ranks; where one is zero, the ratio is 1.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// You et al. 2020, arXiv:1904.00962, Algorithm 2. With bias_correction the moments are corrected before the
// ratio is taken; with `adam` the ratio is 1.
std::shared_ptr<const Rule> lamb_rule();

// You et al. 2017, arXiv:1708.03888, Algorithm 1: rate and ratio within the momentum; nothing is clamped.
std::shared_ptr<const Rule> lars_rule();

}  // namespace weft::optim
