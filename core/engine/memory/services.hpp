// The table behind "weft.pools/1".
#pragma once

#include "weft/pools.h"

namespace weft {

const weft_pool_services* pool_services();

}  // namespace weft
