// A plugin's tables, checked before anything in them is used.
#pragma once

#include <weft/plugin.h>

#include <string>
#include <string_view>

#include "host/host_facts.hpp"
#include "host/manifest.hpp"

namespace weft::host {

// The request that this host makes. `torch_tag` is empty while no engine is loaded.
weft_query_request make_request(const HostFacts& facts, std::string_view torch_tag);

// Asks the plugin and checks its reply: the minor, and that it is who its manifest says. Throws LoadError
// (NEGOTIATE).
weft_query_reply negotiate(weft_plugin_query_fn query, const weft_query_request& request,
                           const Manifest& manifest, const LibraryEntry& library);

// The plugin's table, the factory of the library's kind, and what it has for every name that it provides.
// Throws LoadError (TABLE_VALIDATE).
void check_tables(const weft_plugin* plugin, const LibraryEntry& library);

std::string factory_id(std::string_view kind);  // "weft.factory.strategy/1"

}  // namespace weft::host
