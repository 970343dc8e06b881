// Finds the plugin that provides a name, and loads it.
#pragma once

#include <string>
#include <string_view>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"
#include "host/loader.hpp"

namespace weft::host {

// Loads the newest compatible version of the plugin that provides `name`, or of the default plugin of the
// kind if `name` is empty: of several that say so, the one installed with Weft. A newer version that is
// incompatible is skipped with a warning; one that is damaged or not trusted is an error. A `version` that is
// not empty selects that version only. Throws Error, which lists what was asked for, every candidate and why
// it was not loaded, the folders that were searched, and the nearest name.
const LoadedLibrary& resolve(const Catalogue& catalogue, const HostFacts& facts, std::string_view kind,
                             std::string_view name, std::string_view version);

}  // namespace weft::host
