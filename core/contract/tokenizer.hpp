// What a class of tokenizers must do: ids and text that belong together, the same from every thread.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the installed class `name` with the files of a model folder, whose tokenizer_config.json must name
// it. Throws INVALID_ARGUMENT without a folder, or with one of another class.
void check_tokenizer(const std::string& name, const std::string& folder, const Tell& tell);

}  // namespace weft::contract
