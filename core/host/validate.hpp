// Tests that a plugin follows the rules of the ABI, with requests that other versions of the host could make.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/host_facts.hpp"

namespace weft::host {

// Loads and tests the plugin. `file` is a library, a plugin.json or the folder of a plugin. Runs the plugin's
// code. Throws Error if there is no plugin.json, or the library is not in it.
nlohmann::json validate(const std::filesystem::path& file, const HostFacts& facts);

}  // namespace weft::host
