// Checks the numbers of BoosterOptions, wherever they come from.
#pragma once

#include <string>

#include "base/setting_name.hpp"
#include "weft/booster.hpp"

namespace weft {

// Throws INVALID_ARGUMENT unless accumulate, max_grad_norm and check_agreement are in range. `called` returns
// what messages call an option: "booster: max_grad_norm", or "--max-grad-norm".
void check_numbers(const BoosterOptions& options, const SettingName& called);
void check_max_grad_norm(double max_norm, const std::string& called);

}  // namespace weft
