// Lists the installed plugins as JSON, for weft_runtime_list and the command.
#pragma once

#include <nlohmann/json.hpp>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// Returns one entry for each library, and one for each folder without a valid manifest. If `deeply` is true,
// inspects each library (note, permissions, digest); otherwise checks its manifest only. Loads nothing.
nlohmann::json make_listing(const Catalogue& catalogue, const HostFacts& facts, bool deeply);

}  // namespace weft::host
