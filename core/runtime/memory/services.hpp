// The table of the extension "weft.pools/1", by which strategies place memory in pools.
#pragma once

#include "weft/pools.h"

namespace weft {

const weft_pool_services* pool_services();

}  // namespace weft
