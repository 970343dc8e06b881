// From a name to a loaded library, with an error that helps when there is none.
#pragma once

#include <string>
#include <string_view>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"
#include "host/loader.hpp"

namespace weft::host {

// The newest compatible version of what provides `name`. An incompatible newer one is passed over with a
// warning; a damaged or untrusted one is an error. An empty name is the kind's default, an empty version the
// newest. Throws Error: who was asked for, every candidate and why not, the folders searched, the nearest
// name.
const LoadedLibrary& resolve(const Catalogue& catalogue, const HostFacts& facts, std::string_view kind,
                             std::string_view name, std::string_view version);

}  // namespace weft::host
