// A data set of the recordings in a folder.
#pragma once

#include <memory>
#include <string>

#include "base/setting_name.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {

// Does what the function of weft/data/sound.hpp does. In messages `called` names the options.
std::shared_ptr<Dataset> sound_folder(const std::string& path, const SoundOptions& options,
                                      const SettingName& called);

}  // namespace weft::data
