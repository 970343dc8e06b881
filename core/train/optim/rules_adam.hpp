// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019), as in torch.optim, and with the names, options
// and defaults of Colossal-AI.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

std::shared_ptr<const Rule> adam_rule();   // adds weight decay to the gradient
std::shared_ptr<const Rule> adamw_rule();  // decoupled weight decay
// Return Colossal-AI's three, which are one kernel on the CPU. The option adamw_mode chooses between Adam and
// AdamW; bias_correction can be switched off.
std::shared_ptr<const Rule> hybrid_adam_rule();
std::shared_ptr<const Rule> cpu_adam_rule();
std::shared_ptr<const Rule> fused_adam_rule();

}  // namespace weft::optim
