// Opens folders of images for a model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/setting_name.hpp"
#include "weft/data/images.hpp"
#include "weft/model.hpp"

namespace weft {

// Opens a folder of images for `model`. Of `options` only flips, crops, the held-out part and the seed are
// read: the model decides the rest. Its preprocessor_config.json says how images are processed; without one
// they are resized to the model's size, and `note` is called with a line that says so. Samples have labels if
// the model has a loss of one label per image: those of label2id and id2label in config.json, or, if these
// give classes no names, in the order of the names. Throws like data::image_folder(), and INVALID_ARGUMENT
// if the processed images or their classes are not the model's.
std::shared_ptr<data::Dataset> open_images(const Model& model, const std::string& path,
                                           data::ImageOptions options, const SettingName& called,
                                           const std::function<void(const std::string& line)>& note);

}  // namespace weft
