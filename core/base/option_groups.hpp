// Groups of options that the host implements for all strategies, declared in sdk/options/groups.json. A
// plugin.json lists the groups that the strategy has, may change defaults, and declares options of its own:
//
//   "groups": ["precision", "loss_scale"],
//   "defaults": {"initial_scale": 1024},
//   "options": [{"name": "bucket_cap_mb", ...}]
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/option_table.hpp"

namespace weft {

// Returns the declaration: a list of groups, each with name, by, since, doc and options. `instead` lists
// options of Colossal-AI that a group does without, with what there is instead.
const nlohmann::json& option_groups();

// Returns all options of the plugin with this plugin.json, in the form of "options": those of its groups,
// then its own. Throws INVALID_ARGUMENT for an unknown or repeated group, a default for an unknown option,
// and an option of the plugin that a group declares too.
nlohmann::json options_of_plugin(const nlohmann::json& manifest, std::string_view source);

// Returns the options of options_of_plugin() as a table.
OptionTable option_table_of_plugin(const nlohmann::json& manifest, std::string_view source);

}  // namespace weft
