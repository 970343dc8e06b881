// Checks BoosterOptions by their declaration, wherever they come from.
#pragma once

#include <string>

#include "base/setting_name.hpp"
#include "weft/booster.hpp"

namespace weft {

// Throws INVALID_ARGUMENT unless the options have values that they allow. `called` returns what messages call
// an option: "booster: max_grad_norm", or "--max-grad-norm".
void check_values(const BoosterOptions& options, const SettingName& called);
void check_max_grad_norm(double max_norm, const std::string& called);

}  // namespace weft
