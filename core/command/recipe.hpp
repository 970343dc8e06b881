// --recipe: settings of a training that belong together.
#pragma once

#include "base/settings.hpp"
#include "weft/model.hpp"
#include "weft/world.hpp"

namespace weft::command {

// Returns the settings with those of --recipe for what was not given. Throws INVALID_ARGUMENT if the recipe
// is for another optimizer.
Settings with_recipe(const Settings& arguments);

// Says on the master that a trained model goes on with the usual rate of a new one, unless something about
// the rate was given.
void say_usual_rate(const Settings& arguments, const Model& model, const World& world);

}  // namespace weft::command
