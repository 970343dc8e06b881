// Says how a job goes back to an older version of a plugin.
#pragma once

#include <string>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// Returns the sentence for a version that cannot be used: "; alpha 1.0.0 is installed, too: `weft plugins pin
// alpha@1.0.0` chooses it". It is empty if no older version can be loaded. `is_named` says that the job named
// the version, which counts more than a pin. Reads the older libraries and loads nothing.
std::string way_back(const Catalogue& catalogue, const HostFacts& facts, const Installed& failed,
                     bool is_named);

}  // namespace weft::host
