// Changes the images of a data set at random.
#pragma once

#include <memory>

#include "base/setting_name.hpp"
#include "loader/random.hpp"
#include "weft/data/image_changes.hpp"

namespace weft::data {

// Does what the function of weft/data/image_changes.hpp does. In messages `called` names the options.
std::shared_ptr<Dataset> with_image_changes(std::shared_ptr<Dataset> dataset, const ImageChanges& changes,
                                            const SettingName& called);

// Returns the name of the first change that is asked for, or an empty string.
std::string first_change(const ImageChanges& changes);

// Draws a number from the distribution Beta(alpha, alpha), for alpha above 0.
double draw_beta(double alpha, SampleRandom& random);

}  // namespace weft::data
