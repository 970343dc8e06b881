// The strategy "none": one rank that holds everything. It has a table like any other strategy, so that no
// code branches on it.
#pragma once

#include "weft/strategy.h"

namespace weft {

const weft_strategy_api& single_rank();

}  // namespace weft
