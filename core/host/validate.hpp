// Tests that a plugin follows the rules of the ABI, with requests that other versions of the host could make.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "host/host_facts.hpp"

namespace weft::host {

// Loads and tests the plugin. `file` is a library, a plugin.json or the folder of a plugin. Runs the plugin's
// code. Tells {"warnings": [...]} of the manifest, then for each library {"library": {file, id, version,
// kind, provides, root}} and, one after another, {"check": {name, passed, text}}, each before the next one
// begins. Throws Error if there is no plugin.json, or the library is not in it.
void validate(const std::filesystem::path& file, const HostFacts& facts,
              const std::function<void(const nlohmann::json& event)>& tell);

}  // namespace weft::host
