// The folders in which plugins are searched, in their order, and which plugins are left out.
//
//   1. the paths given to the runtime                     2. WEFT_PLUGIN_ADD_PATH
//   3. WEFT_PLUGIN_PATH, which replaces 4 and 5           4. $XDG_DATA_HOME/weft/plugins
//   5. the folder installed with Weft
//
// With WEFT_PLUGIN_SAFE=1 only 5 is searched. WEFT_PLUGIN_SELECT and WEFT_PLUGIN_DISABLE are glob patterns
// for ids, separated by colons. The working folder and the folders of models and checkpoints are never
// searched.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::host {

struct Root {
  std::filesystem::path path;
  std::string origin;       // "WEFT_PLUGIN_PATH", "installed with Weft", ...
  bool is_of_weft = false;  // the folder installed with Weft
};

struct SearchPaths {
  std::vector<Root> roots;
  std::vector<std::string> select;  // patterns; empty: all plugins
  std::vector<std::string> disable;
  std::vector<std::string> notes;  // which folders a variable leaves out, for `weft plugins doctor`
  std::filesystem::path own;       // the user's folder, which is the one of 4; empty if it is not searched

  // Returns why the plugin with this id is left out, or nothing if it is not.
  std::optional<std::string> left_out(std::string_view id) const;
};

// Returns the search paths of a runtime. `given` are the paths given to it, and `installed` is the folder
// installed with Weft. Throws INVALID_ARGUMENT for a relative path in a variable, and for given paths in safe
// mode.
SearchPaths find_search_paths(const std::vector<std::string>& given, bool safe_mode,
                              const std::filesystem::path& installed);

}  // namespace weft::host
