// A data set of the images in a folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "weft/data/images.hpp"

namespace weft::data {

// Does what the function of weft/data/images.hpp does. In messages `called` names the options, and `origin`
// where the processing comes from.
std::shared_ptr<Dataset> image_folder(const std::string& path, const ImageOptions& options,
                                      const SettingName& called, const std::string& origin);

}  // namespace weft::data
