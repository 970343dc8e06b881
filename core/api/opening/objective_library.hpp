// Opens losses of libraries of kind "objective".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "training/chosen_loss.hpp"
#include "weft/model.hpp"

namespace weft {

// Loads the library that provides `name`, which may have a version behind an @, and makes its loss for
// `model`. `options` are those of the plugin, the text of a JSON object. Returns none for an empty name.
// Throws INVALID_ARGUMENT for a name of Weft's own, for options without a name or that the plugin does not
// have, and for a name that no library provides; what the library throws; and FAILED_PRECONDITION if it makes
// no loss.
ChosenLoss open_objective(const std::string& name, const std::string& options, const Model& model);

// Returns the options of `words`, KEY=VALUE, by the types that the plugin declares, as JSON text. Throws like
// that, where `called` is what messages call the name: "--objective".
std::string objective_options(const std::string& name, const std::vector<std::string>& words,
                              const std::string& called);

// Returns whether Weft has an objective of this name itself, which makes labels. Such a name wins over that
// of a library.
bool makes_labels(std::string_view objective);

}  // namespace weft
