// Opens data with a library of kind "data".
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/data/part.hpp"
#include "weft/define_data.hpp"

namespace weft {

// Loads the library that provides `name`, which may have a version behind an @, and opens what is asked for.
// `options` are those of the plugin, an object; `request` gets them, with defaults, and the name. Throws the
// error of the loader, what the library throws, INVALID_ARGUMENT for an option that it does not have and for
// an empty data set, and FAILED_PRECONDITION if it returns none.
std::shared_ptr<data::Dataset> open_library_data(const std::string& name, const nlohmann::json& options,
                                                 data::OpenRequest request);
// Returns the options of `words`, KEY=VALUE, by the types that the plugin declares. Throws like that.
nlohmann::json library_data_options(const std::string& name, const std::vector<std::string>& words);

// Returns the part of a data set, of which a share is held out, drawn by the seed. Throws INVALID_ARGUMENT if
// it is empty.
std::shared_ptr<data::Dataset> part_of(std::shared_ptr<data::Dataset> whole, data::Part part, double held_out,
                                       int64_t seed);

}  // namespace weft
