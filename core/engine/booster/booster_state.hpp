// The inside of a Booster.
#pragma once

#include "weft/booster.hpp"

namespace weft {

struct Booster::Shared {
  BoosterOptions options;
  std::string precision;  // resolved
  World world;
};

}  // namespace weft
