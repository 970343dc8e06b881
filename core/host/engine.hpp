// Loads libweft_engine.so, which has all code that uses tensors and links libtorch, on first use.
#pragma once

#include "host/engine_table.h"
#include "host/host_facts.hpp"

namespace weft::host {

// Loads the engine from the folder of libweft.so, once per process. Throws LoadError (DLOPEN, ENTRY,
// NEGOTIATE) if it is missing, cannot be loaded or is from another build.
const weft_engine_table& load_engine(const HostFacts& facts);

// Returns null if the engine is not loaded yet.
const weft_engine_table* engine_if_loaded();

}  // namespace weft::host
