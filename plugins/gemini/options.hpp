// The options of gemini, with the checks that plugin.json cannot express.
#pragma once

#include <cstdint>
#include <string>

#include "chunk_search.hpp"
#include "placement.hpp"
#include "weft/pools.h"
#include "weft/torch/strategy.hpp"

namespace weft::plugin::gemini {

struct GeminiOptions {
  SearchOptions search;
  PlacementOptions placement;
  int64_t max_prefetch = 0;
  int64_t replicas = 1;  // how many ranks keep the same parts
  bool async_reduce = true, accumulate = false, pin_memory = false, verbose = false;
  uint32_t made_in = WEFT_POOL_ACCELERATOR;  // the pool into which master weights are read at first
  std::string memstats;                      // a file; empty: none
};

// Reads the options. Throws INVALID_ARGUMENT if they contradict each other or the number of ranks.
GeminiOptions parse(const Options& options, uint32_t world_size);

}  // namespace weft::plugin::gemini
