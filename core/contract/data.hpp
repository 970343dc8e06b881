// What a library of data sets must do: the same samples, by whatever indices, from whatever thread.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the data set of this name with the data at `path`. `options` is a JSON object, and `model`, if it is
// not empty, is the config.json or folder of a model that reads the data. Throws INVALID_ARGUMENT without a
// path.
void check_data(const std::string& name, const std::string& options, const std::string& path,
                const std::string& model, const Tell& tell);

}  // namespace weft::contract
