// What messages call a setting, which a program gives as a field and the command as a flag.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

namespace weft {

// Returns what messages call the setting with this name: "mask_ratio", or "--mask-ratio".
using SettingName = std::function<std::string(const std::string& setting)>;
// Returns the name itself, for the settings of a program.
inline std::string own_name(const std::string& setting) {
  return setting;
}
// Returns the flag of the command with that name: "--mask-ratio".
inline std::string flag_name(std::string setting) {
  std::replace(setting.begin(), setting.end(), '_', '-');
  return "--" + setting;
}

}  // namespace weft
