// The options that the host performs for every strategy that asks for them, declared once in
// sdk/options/groups.json. A plugin.json names groups, may change defaults, and declares its own options:
//
//   "groups": ["precision", "loss_scale"],
//   "defaults": {"initial_scale": 1024},
//   "options": [{"name": "bucket_cap_mb", ...}]
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/option_table.hpp"

namespace weft {

// Returns the declaration: a list of groups, each with name, by, since, doc and options.
const nlohmann::json& option_groups();

// Returns every option of the plugin with this plugin.json, in the form of "options": those of its groups,
// then its own. Throws INVALID_ARGUMENT for a group that does not exist or is named twice, a default of no
// option, and an option of the plugin's own that is the host's.
nlohmann::json options_of_plugin(const nlohmann::json& manifest, std::string_view source);

// Returns the same as a table.
OptionTable option_table_of_plugin(const nlohmann::json& manifest, std::string_view source);

}  // namespace weft
