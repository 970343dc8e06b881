// Finds the strategy of a job by name.
#pragma once

#include <string>

#include "booster/host_options.hpp"
#include "weft/strategy.h"

namespace weft {

// A strategy that was found and whose options are checked, but that is not created yet.
struct ChosenStrategy {
  std::string name;
  const weft_strategy_api* api = nullptr;
  Options options;
  HostOptions host;
  std::string identity;  // of its plugin; ranks compare it
};

// Loads the plugin of the booster's strategy; "none" is one rank without a plugin. Throws the errors of the
// plugin loader and of the option table, and UNIMPLEMENTED if enable_cuda_graph is true, but the strategy or
// its axes do not allow it.
ChosenStrategy choose_strategy(const BoosterOptions& booster);

}  // namespace weft
