// No strategy: one rank that owns everything. A table like any strategy's, so that nothing branches on it.
#pragma once

#include "weft/strategy.h"

namespace weft {

const weft_strategy_api& single_rank();

}  // namespace weft
