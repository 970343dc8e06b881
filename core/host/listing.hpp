// What is installed as JSON, for weft_runtime_list and the command.
#pragma once

#include <nlohmann/json.hpp>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// One entry for each library, and one for each folder without a manifest. With `deeply`, each library is
// inspected (note, permissions, digest); without, its manifest alone is judged. Nothing is loaded.
nlohmann::json make_listing(const Catalogue& catalogue, const HostFacts& facts, bool deeply);

}  // namespace weft::host
