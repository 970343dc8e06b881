// Finds the plugin that provides a name, and loads it.
#pragma once

#include <string>
#include <string_view>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"
#include "host/loader.hpp"

namespace weft::host {

// Loads the newest compatible version of the plugin that provides `name`, or of the default plugin of the
// kind if `name` is empty: of several that say so, the one installed with Weft. Which versions are meant
// (VersionRequest) stands in `version` or behind an @ in `name`; otherwise in the versions that the catalogue
// has bound or pinned. A newer version that is for another host is skipped with a warning; one that is
// damaged, not trusted or fails when it starts is an error, and no other is taken in its place. Throws Error,
// which lists what was asked for, every candidate and why it was not loaded, the older version to which one
// can go back, the folders that were searched, and the nearest name.
const LoadedLibrary& resolve(const Catalogue& catalogue, const HostFacts& facts, std::string_view kind,
                             std::string_view name, std::string_view version);

}  // namespace weft::host
