// Loads plugins for the engine, by kind and name, through libweft.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/runtime.h"

namespace weft {

class Communicator;

// Returns the runtime of the process: the application's, or one that is made on first use and never
// destroyed.
weft_runtime* plugin_runtime();
// Makes `runtime` the one that finds plugins. It must outlive every use of the engine.
void use_plugin_runtime(weft_runtime* runtime);

// Loads the plugin of this kind that provides `name` (empty: the default of the kind), which may have a
// version behind an @ (weft_runtime_load). Throws the error of the loader.
weft_loaded load_plugin(std::string_view kind, std::string_view name);

// Returns the names that the installed plugins of this kind provide, sorted. Loads nothing.
std::vector<std::string> provided_names(std::string_view kind);

// Returns NAME of "NAME@VERSION", by which the factory of a plugin knows what it provides.
std::string plugin_name(std::string_view asked);

// Returns the factory of a loaded plugin. Throws if it has none of this id.
template <class Factory>
const Factory& plugin_factory(const weft_loaded& loaded, const char* id);
const void* find_factory(const weft_loaded& loaded, const char* id);
template <class Factory>
const Factory& plugin_factory(const weft_loaded& loaded, const char* id) {
  return *static_cast<const Factory*>(find_factory(loaded, id));
}

// Returns "strategy NAME 0.1.0 <digest> abi 0.1", which ranks compare before the first collective.
std::string plugin_identity(const weft_loaded& loaded);

// A plugin that load_plugin() has loaded.
struct UsedPlugin {
  std::string kind, id, version, identity;
};
// Returns those of this process, by kind and id; of several versions of a library the one that was asked for
// last.
std::vector<UsedPlugin> used_plugins();
// Throws FAILED_PRECONDITION on every rank if a plugin that all ranks use is another one on one of them.
// Collective.
void require_same_plugins(const Communicator& ranks);

}  // namespace weft
