// Options of libraries that users give as KEY=VALUE, or as an object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/option_table.hpp"
#include "weft/runtime.h"

namespace weft {

// Returns the options that the plugin.json of a loaded plugin declares.
OptionTable options_of_library(const weft_loaded& loaded);

// Returns the options of `words`, KEY=VALUE, by the types that the plugin of this kind declares. `name` may
// have a version behind an @. `who` begins messages: "data set NAME". Throws the error of the loader, and
// INVALID_ARGUMENT for an option that it does not have.
nlohmann::json library_options(const char* kind, const std::string& name, const std::string& who,
                               const std::vector<std::string>& words);

}  // namespace weft
