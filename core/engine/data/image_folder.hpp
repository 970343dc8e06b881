// A data set of the images in a folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "weft/data/images.hpp"

namespace weft::data {

// The images of one class.
struct ImageClass {
  std::string name;                // of its folder
  std::vector<std::string> files;  // their names, sorted
};

// Returns the classes of a folder in the order of their names. Throws as image_folder() does.
std::vector<ImageClass> find_images(const std::string& path);

// Returns the files of a class that belong to a part, in the same order. Of n files, `held_out` n are held
// out, rounded, but never all of them.
std::vector<std::string> files_of_part(const ImageClass& images, Part part, double held_out, int64_t seed);

// Does what the function of weft/data/images.hpp does. In messages `called` names the options, and `origin`
// where the processing comes from.
std::shared_ptr<Dataset> image_folder(const std::string& path, const ImageOptions& options,
                                      const SettingName& called, const std::string& origin);

}  // namespace weft::data
