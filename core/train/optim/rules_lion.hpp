// Lion: the sign of an interpolated momentum (Chen et al. 2023, arXiv:2302.06675, Algorithm 2).
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

std::shared_ptr<const Rule> lion_rule();

}  // namespace weft::optim
