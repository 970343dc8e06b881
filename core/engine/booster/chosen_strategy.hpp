// The strategy of a job, found by name.
#pragma once

#include <string>

#include "booster/host_options.hpp"
#include "weft/strategy.h"

namespace weft {

// A strategy that is ready to be made: its table, checked options, and what ranks must agree on. Found
// through the registry by the booster's name for it; "none" is one rank without a strategy. Throws what the
// loader and the option table say.
struct ChosenStrategy {
  std::string name;
  const weft_strategy_api* api = nullptr;
  Options options;
  HostOptions host;
  std::string identity;
};

ChosenStrategy choose_strategy(const BoosterOptions& booster);

}  // namespace weft
