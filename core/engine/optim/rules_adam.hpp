// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019), as torch.optim.
#pragma once

#include "weft/optim/optimizer.hpp"

namespace weft::optim {

std::shared_ptr<const Rule> adam_rule();   // weight decay added to the gradient
std::shared_ptr<const Rule> adamw_rule();  // weight decay apart

}  // namespace weft::optim
