// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019): as torch.optim, and under the names, options
// and defaults of Colossal-AI.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

std::shared_ptr<const Rule> adam_rule();   // weight decay added to the gradient
std::shared_ptr<const Rule> adamw_rule();  // weight decay apart
// adamw_mode chooses between the two; bias_correction may be switched off. On the CPU all three are one
// kernel.
std::shared_ptr<const Rule> hybrid_adam_rule();
std::shared_ptr<const Rule> cpu_adam_rule();
std::shared_ptr<const Rule> fused_adam_rule();

}  // namespace weft::optim
