// Plugins as the engine uses them: found by kind and name through libweft, once per process.
#pragma once

#include <string>
#include <string_view>

#include "weft/runtime.h"

namespace weft {

// The process's runtime: an application's, or one made on first use and never destroyed.
weft_runtime* plugin_runtime();
// From now on plugins are found through `runtime`, which must outlive the engine's use.
void use_plugin_runtime(weft_runtime* runtime);

// Loads what provides `name` (empty: the kind's default). Throws the loader's error.
weft_loaded load_plugin(std::string_view kind, std::string_view name);

// The factory of a loaded plugin; throws if it has none of this id.
template <class Factory>
const Factory& plugin_factory(const weft_loaded& loaded, const char* id);
const void* find_factory(const weft_loaded& loaded, const char* id);
template <class Factory>
const Factory& plugin_factory(const weft_loaded& loaded, const char* id) {
  return *static_cast<const Factory*>(find_factory(loaded, id));
}

// "strategy NAME 0.1.0 <digest> abi 0.1": what ranks compare before the first collective.
std::string plugin_identity(const weft_loaded& loaded);

}  // namespace weft
