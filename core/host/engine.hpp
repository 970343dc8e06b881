// libweft_engine.so, opened on first need: everything that touches tensors is there, libtorch with it.
#pragma once

#include "host/engine_table.h"
#include "host/host_facts.hpp"

namespace weft::host {

// Opens the engine beside libweft.so, once per process. Throws LoadError (DLOPEN, ENTRY, NEGOTIATE) if it is
// missing, does not load or comes from another build.
const weft_engine_table& load_engine(const HostFacts& facts);

// Null while it is not loaded.
const weft_engine_table* engine_if_loaded();

}  // namespace weft::host
