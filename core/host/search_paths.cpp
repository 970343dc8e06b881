#include "host/search_paths.hpp"

#include <fnmatch.h>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;

void add_variable(const char* name, std::vector<Root>& roots) {
  for (const std::string& path : environment_list(name)) {
    if (!fs::path(path).is_absolute()) {
      fail(WEFT_INVALID_ARGUMENT, "environment variable {} contains \"{}\", but every path must be absolute",
           name, printable(path));
    }
    roots.push_back({path, name});
  }
}

std::optional<Root> user_folder() {
  if (const auto data = environment("XDG_DATA_HOME"); data && fs::path(*data).is_absolute()) {
    return Root{fs::path(*data) / "weft/plugins", "XDG_DATA_HOME"};
  }
  if (const auto home = environment("HOME"); home && fs::path(*home).is_absolute()) {
    return Root{fs::path(*home) / ".local/share/weft/plugins", "your own"};
  }
  return std::nullopt;
}

bool matches_any(std::string_view id, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    if (fnmatch(glob.c_str(), std::string(id).c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> SearchPaths::left_out(std::string_view id) const {
  if (!select.empty() && !matches_any(id, select)) {
    return fmt::format("left out by WEFT_PLUGIN_SELECT={}", fmt::join(select, ":"));
  }
  if (matches_any(id, disable))
    return fmt::format("left out by WEFT_PLUGIN_DISABLE={}", fmt::join(disable, ":"));
  return std::nullopt;
}

SearchPaths find_search_paths(const std::vector<std::string>& given, bool safe_mode,
                              const fs::path& installed) {
  SearchPaths paths;
  paths.select = environment_list("WEFT_PLUGIN_SELECT");
  paths.disable = environment_list("WEFT_PLUGIN_DISABLE");
  const Root with_weft = {installed, "installed with Weft", true};
  if (safe_mode || environment_flag("WEFT_PLUGIN_SAFE")) {
    if (!given.empty()) {
      fail(WEFT_INVALID_ARGUMENT,
           "safe mode admits only the plugins installed with Weft, but {} was given as a folder of plugins",
           given.front());
    }
    paths.notes.push_back("safe mode: only the plugins installed with Weft are admitted");
    paths.roots = {with_weft};
    return paths;
  }
  for (const std::string& path : given) {
    std::error_code code;
    const fs::path absolute = fs::absolute(path, code);
    if (path.empty() || code)
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" is not a path to a folder of plugins", printable(path));
    paths.roots.push_back({absolute.lexically_normal(), "given"});
  }
  add_variable("WEFT_PLUGIN_ADD_PATH", paths.roots);
  if (const auto replacement = environment("WEFT_PLUGIN_PATH")) {
    add_variable("WEFT_PLUGIN_PATH", paths.roots);
    paths.notes.push_back(
        fmt::format("WEFT_PLUGIN_PATH={} replaces your own folder and the one installed with Weft",
                    printable(*replacement, 1000)));
    for (Root& root : paths.roots) root.is_of_weft = root.path == with_weft.path;
    return paths;
  }
  if (const auto user = user_folder()) {
    paths.roots.push_back(*user);
    paths.own = user->path;
  }
  paths.roots.push_back(with_weft);
  return paths;
}

}  // namespace weft::host
