// Negotiates with a plugin and checks its tables before they are used.
#pragma once

#include <weft/plugin.h>

#include <string>
#include <string_view>

#include "host/host_facts.hpp"
#include "host/manifest.hpp"

namespace weft::host {

// Returns the request of this host. `torch_tag` is empty if the engine is not loaded.
weft_query_request make_request(const HostFacts& facts, std::string_view torch_tag);

// Queries the plugin and checks its reply: the ABI version, and that id, version and tier are those of the
// manifest. Throws LoadError (NEGOTIATE).
weft_query_reply negotiate(weft_plugin_query_fn query, const weft_query_request& request,
                           const Manifest& manifest, const LibraryEntry& library);

// Checks the plugin's table, its factory for the kind of the library, and the table of every name that it
// provides. Throws LoadError (TABLE_VALIDATE).
void check_tables(const weft_plugin* plugin, const LibraryEntry& library);

std::string factory_id(std::string_view kind);  // "weft.factory.strategy/1"

}  // namespace weft::host
