// Stochastic gradient descent with momentum, as torch.optim.SGD.
#pragma once

#include "weft/optim/optimizer.hpp"

namespace weft::optim {

std::shared_ptr<const Rule> sgd_rule();

}  // namespace weft::optim
