// Where plugins are looked for, in order, and which are left out.
//
//   1. the paths given to the runtime                     2. WEFT_PLUGIN_ADD_PATH
//   3. WEFT_PLUGIN_PATH, which replaces 4 and 5           4. $XDG_DATA_HOME/weft/plugins
//   5. the folder installed with Weft
//
// WEFT_PLUGIN_SAFE=1 leaves 5 only. WEFT_PLUGIN_SELECT and WEFT_PLUGIN_DISABLE are globs for ids, with colons
// between. The working folder and the folders of models and checkpoints are never searched.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::host {

struct Root {
  std::filesystem::path path;
  std::string origin;  // "WEFT_PLUGIN_PATH", "installed with Weft", ...
};

struct SearchPaths {
  std::vector<Root> roots;
  std::vector<std::string> select;  // empty: all
  std::vector<std::string> disable;
  std::vector<std::string> notes;  // what a variable left out, for doctor

  // Why the plugin of this id is left out; nothing if it is not.
  std::optional<std::string> left_out(std::string_view id) const;
};

// `given` are the runtime's own, `installed` the folder that comes with Weft. Throws INVALID_ARGUMENT for a
// relative path in a variable, and for given paths in safe mode.
SearchPaths find_search_paths(const std::vector<std::string>& given, bool safe_mode,
                              const std::filesystem::path& installed);

}  // namespace weft::host
